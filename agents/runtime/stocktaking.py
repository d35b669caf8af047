"""The agent's end of agents/runtime/stock.py: the stock of a checkpoint directory, or why there is none."""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from agents.runtime.children import Children
from agents.runtime.users import User
from muster.protocol import CheckpointItem

SCRIPT = Path(__file__).with_name("stock.py")
TIMEOUT = 20.0


class _Item(Struct):
    path: str
    step: int
    format: str
    complete: bool
    size: int
    modified_at: float
    manifest: dict[str, int]
    why: str


class _Answer(Struct):
    items: list[_Item] = []
    error: str = ""
    errno: int = 0


class Stock(Struct, frozen=True):
    """`items` is the whole stock; None when it could not be taken, for the reason in `error`."""

    items: tuple[CheckpointItem, ...] | None
    error: str = ""
    errno: int = 0


def _as(user: User | None) -> tuple[str, ...]:
    if user is None:
        return ()
    return (f"--as={user.uid}:{user.gid}:{','.join(map(str, user.groups))}",)


async def take_stock(
    children: Children,
    directory: Path,
    format_: str,
    *,
    prepare: bool = False,
    timeout: float = TIMEOUT,
    user: User | None = None,
) -> Stock:
    """As `user`, whose directory it is."""
    argv = (
        sys.executable,
        "-I",
        "-S",
        str(SCRIPT),
        str(directory),
        format_,
        *(("--prepare",) if prepare else ()),
        *_as(user),
    )
    try:
        answer = msgspec.json.decode(await children.output(argv, timeout=timeout), type=_Answer)
    except TimeoutError:
        return Stock(None, f"{directory} did not answer within {timeout:g} s")
    except (OSError, ValueError) as error:
        return Stock(None, f"{directory}: {error}")
    if answer.error:
        return Stock((), "", 0) if answer.errno == 2 and not prepare else Stock(None, answer.error, answer.errno)
    return Stock(tuple(CheckpointItem(**msgspec.structs.asdict(item)) for item in answer.items))
