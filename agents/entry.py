"""`muster-agent`: `inspect` answers at once, without what only the daemon needs."""

import sys


def main() -> int:
    if sys.argv[1:2] == ["inspect"]:
        from agents.inspecting import main as inspect

        return inspect(sys.argv[2:])
    from agents.main import main as serve

    return serve()
