"""`python -m controller.replay [--json] FILE...`: makes recorded decisions again, offline.

Ends with 0 when every plan comes out as it was recorded, 1 when one does not, 2 when a file cannot be read.
"""

import sys
from pathlib import Path

import msgspec

from controller.simulation.recording import BadRecording, Recording, replay, unpack
from muster.clock import iso

SHOWN = 20


def main(words: list[str]) -> int:
    as_json = "--json" in words
    paths = [Path(word) for word in words if word != "--json"]
    results, code = [], 0
    for path in paths:
        try:
            recording = unpack(path.read_bytes())
        except (OSError, BadRecording) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            sys.stderr.write(f"error: {path}: {reason}\n")
            code = 2
            continue
        different = replay(recording)
        code = max(code, 1 if different else 0)
        results.append({"file": str(path), **_facts(recording), "same": not different, "differences": different})
        if not as_json:
            sys.stdout.write(_text(path, recording, different))
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(results)).decode() + "\n")
    return code


def _facts(recording: Recording) -> dict[str, object]:
    return {
        "at": iso(recording.now),
        "revision": recording.revision,
        "version": recording.version,
        "nodes": len(recording.nodes),
        "starts": len(recording.plan["groups"]),
        "evictions": len(recording.plan["evictions"]),
        "waits": len(recording.plan["waits"]),
    }


def _text(path: Path, recording: Recording, different: list[str]) -> str:
    facts = _facts(recording)
    counts = ", ".join(f"{facts[name]} {name}" for name in ("nodes", "starts", "evictions", "waits"))
    lines = [f"{path}: revision {recording.revision} at {facts['at']}, version {recording.version}: {counts}"]
    lines += [f"  {line}" for line in different[:SHOWN]]
    if len(different) > SHOWN:
        lines.append(f"  and {len(different) - SHOWN} more")
    lines.append("  the plan is the same" if not different else f"  the plan is another: {len(different)} differences")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
