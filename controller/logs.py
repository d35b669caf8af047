"""How the server processes log on standard error, the same in all of them: lines for people, or JSON objects for
machines. What is bound to the context (the request, the job, the attempt) is in every line that is written there."""

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec
import structlog

Format = Literal["text", "json"]
_FORMATS: Final = get_args(Format)


def form(environ: Mapping[str, str]) -> Format:
    """MUSTER_LOG_FORMAT. Raises ValueError."""
    found = environ.get("MUSTER_LOG_FORMAT") or "text"
    if found not in _FORMATS:
        raise ValueError(f"MUSTER_LOG_FORMAT: expected text or json, found {found!r}")
    return "json" if found == "json" else "text"


def configure(level: str, form: Format = "text") -> None:
    """Ours and those of libraries alike; tracebacks without decoration, which is slow. Unknown levels mean info."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    first: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper("iso", utc=True),
    ]
    if form == "json":
        last: list[Any] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]
    else:
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING))
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _json(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
