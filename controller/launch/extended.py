"""The user's words with a launcher's options behind them."""

from collections.abc import Mapping, Sequence

Options = Mapping[str, object]
"""Values by flag; None for a flag alone."""


def has(words: Sequence[str], *flags: str) -> bool:
    """Whether the user gave one of these flags, as `--flag value` or `--flag=value`."""
    return any(word == flag or word.startswith(f"{flag}=") for word in words for flag in flags)


def value(words: Sequence[str], *flags: str) -> str | None:
    """The last value that the user gave for one of these flags."""
    found = None
    for place, word in enumerate(words):
        name, equals, text = word.partition("=")
        if name in flags:
            found = text if equals else (words[place + 1] if place + 1 < len(words) else None)
    return found


def extended(words: Sequence[str], options: Options) -> tuple[str, ...]:
    """The user's own flags stay as they are: what they say is not said again."""
    added: list[str] = []
    for flag, text in options.items():
        if not has(words, flag):
            added += [flag] if text is None else [flag, str(text)]
    return (*words, *added)
