"""How the server processes log: lines for people on standard error, the same in all of them."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Ours and those of libraries alike; tracebacks without decoration, which is slow. Unknown levels mean info."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.WARNING), format="%(asctime)s %(name)s %(message)s"
    )
    render = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper("iso", utc=True), render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
