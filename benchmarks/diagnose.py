"""`./run bench diagnose`: how often the diagnosis is right on failures that were really caused.

Reads the labelled corpus of the tests (made by benchmarks/corpus.py) or, with --data, another folder of that form or a
`cases.jsonl` of published failures. Tells the part that rules were written from apart from the part held out.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from controller.diagnose import examine  # noqa: E402


def rows(data: Path) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """(name, log, expected) of every labelled failure."""
    if data.is_file():
        for line in data.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            yield case["id"], case["log"], {**case, "held_out": False}
        return
    for name, expected in json.loads((data / "expected.json").read_text(encoding="utf-8")).items():
        yield name, (data / name).read_text(encoding="utf-8"), expected


def judge(name: str, log: str, expected: dict[str, Any]) -> dict[str, Any]:
    found = examine([(name, log)])
    culprit = expected.get("culprit_rank")
    return {
        "name": name,
        "part": "held out" if expected["held_out"] else "written from",
        "expected": expected["category"],
        "found": found.category,
        "action": found.action,
        "action_right": found.action in expected["accept"],
        "category_right": found.category == expected["category"],
        "innocent_blamed": expected["node_at_fault"] is False and found.node_at_fault is True,
        "rank_right": None if culprit is None else found.culprit_rank == culprit,
        "user_error_restarted": list(expected["accept"]) == ["fail"] and found.action not in ("fail", "hold", "record"),
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    ranked = [one for one in found if one["rank_right"] is not None]
    return {
        "logs": len(found),
        "action_right": sum(one["action_right"] for one in found),
        "category_right": sum(one["category_right"] for one in found),
        "rank_right": sum(one["rank_right"] for one in ranked),
        "rank_known": len(ranked),
        "innocent_blamed": sum(one["innocent_blamed"] for one in found),
        "user_error_restarted": sum(one["user_error_restarted"] for one in found),
        "confusion": [
            {"expected": want, "found": got, "logs": count}
            for (want, got), count in sorted(Counter((one["expected"], one["found"]) for one in found).items())
        ],
    }


def show(part: str, told: dict[str, Any], found: list[dict[str, Any]]) -> None:
    print(
        f"{part}: {told['logs']} logs; action right {told['action_right']}, category {told['category_right']}, rank "
        f"{told['rank_right']} of {told['rank_known']}; innocent nodes blamed {told['innocent_blamed']}, user errors "
        f"restarted {told['user_error_restarted']}"
    )
    print(f"  {'caused':<30}{'diagnosed':<30}logs")
    for row in told["confusion"]:
        print(f"  {row['expected']:<30}{row['found']:<30}{row['logs']}")
    for one in found:
        if not one["action_right"] or one["rank_right"] is False or one["innocent_blamed"]:
            print(f"  wrong: {one['name']}: {one['found']}, {one['action']}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench diagnose", description=__doc__.partition("\n")[2].strip())
    parser.add_argument("--data", type=Path, default=ROOT / "tests" / "recovery" / "corpus", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, and nothing else")
    args = parser.parse_args()
    try:
        labelled = list(rows(args.data))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {args.data}: {error}")
    begun = time.perf_counter()
    found = [judge(*row) for row in labelled]
    took = time.perf_counter() - begun
    parts = {part: [one for one in found if one["part"] == part] for part in ("written from", "held out")}
    told = {part: summary(ones) for part, ones in parts.items() if ones}
    if args.json:
        print(json.dumps({"parts": told, "seconds": took, "logs": found}))
        return
    for part, one in told.items():
        show(part, one, parts[part])
    print(f"{len(found)} logs in {took:.2f} s")


if __name__ == "__main__":
    main()
