"""Frames of protocol 1 as they were on the wire. What was once sent is understood for as long as its version is: a
field may be added with a default, none may be renamed, removed, or made to mean something else."""

import json
from pathlib import Path
from typing import Any

import pytest

from muster import protocol
from muster.protocol import decode_down, decode_up, encode
from muster.version import PROTOCOL, PROTOCOL_OLDEST

RECORDED = Path(__file__).with_name("recorded")
FRAMES = [
    pytest.param(frame, decode, id=f"{path.stem}-{frame['type']}-{number}")
    for path in sorted(RECORDED.glob("v*.json"))
    for direction, decode in (("up", decode_up), ("down", decode_down))
    for number, frame in enumerate(json.loads(path.read_text())[direction])
]


def decoded(decode: Any, frame: Any) -> Any:
    return decode(json.dumps(frame))


def strangers(value: Any) -> Any:
    """The same with a field that this program does not know in every object that is not a plain mapping."""
    if isinstance(value, list):
        return [strangers(one) for one in value]
    if not isinstance(value, dict):
        return value
    more = {"fieldOfTheFuture": {"deep": [1]}} if "type" in value or "workerUid" in value or "path" in value else {}
    return {key: strangers(one) for key, one in value.items()} | more


@pytest.mark.parametrize(("frame", "decode"), FRAMES)
def test_a_recorded_frame_means_what_it_meant(frame: dict[str, Any], decode: Any) -> None:
    again = json.loads(encode(decoded(decode, frame)))
    assert again == frame


@pytest.mark.parametrize(("frame", "decode"), FRAMES)
def test_fields_of_a_newer_program_are_passed_over(frame: dict[str, Any], decode: Any) -> None:
    assert decoded(decode, strangers(frame)) == decoded(decode, frame)


@pytest.mark.parametrize(
    ("frame", "decode", "missing", "default"),
    [
        ({"type": "hello", "v": 1, "node": "n", "bootId": "b", "agentVersion": "0", "inventory": {"address": "a", "host": "h", "cpuMilli": 1, "memory": 1}}, decode_up, "workers", ()),
        ({"type": "renew", "seq": 1, "sent": 1.0}, decode_up, "observed", 0),
        ({"type": "report", "seq": 1}, decode_up, "checkpoints", {}),
        ({"type": "log", "workerUid": "w", "attempt": "a", "offset": 0, "data": ""}, decode_up, "rank", None),
        ({"type": "welcome", "v": 1, "lease": {}}, decode_down, "generation", 0),
        ({"type": "desired", "generation": 1}, decode_down, "assignments", ()),
    ],
)  # fmt: skip
def test_what_an_older_program_does_not_send_has_its_default(
    frame: dict[str, Any], decode: Any, missing: str, default: Any
) -> None:
    assert getattr(decoded(decode, frame), missing) == default


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": "future"}', '{"type": "renew"}', '{"type": "renew", "seq": "x", "sent": 1}'])  # fmt: skip
@pytest.mark.parametrize("decode", [decode_up, decode_down])
def test_a_frame_that_is_not_understood_is_a_value_error(text: str, decode: Any) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_every_kind_of_frame_is_recorded_for_every_version_that_is_spoken() -> None:
    kinds = {
        "up": {protocol.Hello, protocol.Renew, protocol.Report, protocol.LogChunk, protocol.Stock},
        "down": set(protocol.Down.__args__),
    }
    for version in range(PROTOCOL_OLDEST, PROTOCOL + 1):
        recorded = json.loads((RECORDED / f"v{version}.json").read_text())
        assert {type(decoded(decode_up, one)) for one in recorded["up"]} == kinds["up"]
        assert {type(decoded(decode_down, one)) for one in recorded["down"]} == kinds["down"]
