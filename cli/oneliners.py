"""From the words of `muster submit` and `muster run` to a manifest. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.errors import Exit, Failure

Object = dict[str, Any]


def devices(text: str) -> Object:
    """`h100:8`, `h100` (one)."""
    kind, colon, count = text.partition(":")
    if not kind or (colon and not (count.isdigit() and int(count))):
        raise Failure(f"-g {text}: expected TYPE:COUNT, e.g. h100:8", code=Exit.USAGE)
    return {"type": kind, "count": int(count or 1)}


def pairs(words: Sequence[str], option: str, environ: Mapping[str, str]) -> dict[str, str]:
    """`KEY=VALUE`, or `KEY` with the value that it has here."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and key not in environ:
            raise Failure(f"{option} {word}: expected KEY=VALUE, or a variable that is set here", code=Exit.USAGE)
        found[key] = value if equals else environ[key]
    return found


def job(
    command: Sequence[str],
    *,
    name: str,
    namespace: str,
    workdir: str,
    workers: int = 1,
    gpus: Sequence[str] = (),
    cpu: str | None = None,
    memory: str | None = None,
    queue: str | None = None,
    priority: str | None = None,
    time: str | None = None,
    image: str | None = None,
    framework: str | None = None,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    after: Sequence[str] = (),
    array: str | None = None,
    level: str | None = None,
) -> Object:
    wanted: Object = {
        "workers": workers if workers > 1 else None,
        "accelerators": [devices(one) for one in gpus] or None,
        "cpu": cpu,
        "memory": memory,
        "queue": queue,
        "priorityClass": priority,
        "timeLimit": time,
        "image": image,
        "framework": framework,
        "env": dict(env) if env else None,
        "checkpoint": {"directory": checkpoint} if checkpoint else None,
        "after": [{"job": one} for one in after] or None,
        "array": {"indices": array} if array else None,
        "topology": {"required": level} if level else None,
    }
    spec = {"command": list(command), "workdir": workdir} | {key: one for key, one in wanted.items() if one is not None}
    metadata: Object = {"name": name, "namespace": namespace} | ({"labels": dict(labels)} if labels else {})
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def name_of(command: Sequence[str]) -> str:
    """From the program: `python train.py --lr 1` is `train`."""
    import re

    words = [word for word in command if not word.startswith("-")]
    word = next((word for word in words if word.endswith((".py", ".sh"))), words[0] if words else "job")
    stem = word.rpartition("/")[2].rpartition(".")[0] or word.rpartition("/")[2]
    text = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50].strip("-")
    return text if text and text[0].isalpha() else f"job-{text}".strip("-")
