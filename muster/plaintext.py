"""What people paste and tools print, as clean lines: encodings, colours, control characters, size."""

import re
from typing import Final, NamedTuple

LIMIT: Final = 4 * 1024 * 1024
MOST_LINES: Final = 200_000
_LONGEST: Final = 16 * 1024
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\[\d{1,2}(?:;\d{1,3})*m"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\u200b]")
_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


class Plain(NamedTuple):
    """`text` with \\n between lines; `problems` says what was lost on the way."""

    text: str
    problems: tuple[str, ...]

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.split("\n")]


def clean(raw: bytes | str) -> Plain:
    """Never raises. Reads at most LIMIT bytes; a longer input is cut, and that is a problem."""
    problems: list[str] = []
    if len(raw) > LIMIT:
        raw = raw[:LIMIT]
        problems.append(f"input is longer than {LIMIT // 1024 // 1024} MiB: the rest was not read")
    text = raw if isinstance(raw, str) else _decode(raw, problems)
    text = _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if text.count("\n") > MOST_LINES:
        text = "\n".join(text.split("\n", MOST_LINES)[:MOST_LINES])
        problems.append(f"input has more than {MOST_LINES} lines: the rest was not read")
    if len(text) > _LONGEST and any(len(line) > _LONGEST for line in text.split("\n")):
        text = "\n".join(line[:_LONGEST] for line in text.split("\n"))
        problems.append("lines of more than 16 KiB were cut")
    return Plain(text, tuple(problems))


def _decode(raw: bytes, problems: list[str]) -> str:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, errors="replace")
    if len(raw) > 8 and raw[1:64:2].count(0) > 16:  # UTF-16 without a mark
        return raw.decode("utf-16-le", errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        problems.append("input is not UTF-8: other bytes were replaced")
        return raw.decode("utf-8", errors="replace")
