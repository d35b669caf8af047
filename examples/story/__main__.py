"""A whole cluster, a real training, and all that can befall it, told as it happens: `./run demo`.

Everything is done as a user would: with the `muster` command, the REST API and `kill`. The exit code is 0 only when
all that the story claims was true.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from chapters import Story
from embedded import Cluster
from ranks import processes_of
from tell import Narrator, StoryFailed, until


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--light", action="store_true", help="train with NumPy instead of PyTorch")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running, and say how to go on")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is ended then, too
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    cluster, tell = Cluster(folder), Narrator()
    try:
        complete = act(cluster, tell, "light" if options.light else "ddp")
    finally:
        kept = options.keep and sys.exc_info()[0] is None and (cluster.data / "up.json").exists()
        if not kept:
            end(cluster, tell)
    good = complete and not tell.broken
    print()
    if kept:
        invite(cluster)
    elif good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"What the cluster wrote is kept in {folder} (log of `muster up`: {cluster.log}).")
    for claim in tell.broken:
        print(f"Not true: {claim}")
    print(f"{tell.held} of {tell.held + len(tell.broken)} claims held" + ("." if good else "; the story is NOT true."))
    return 0 if good else 1


def act(cluster: Cluster, tell: Narrator, trainer: str) -> bool:
    """The story from the first command on. False when it could not be told to its end."""
    try:
        tell.chapter("A cluster on this machine")
        tell.say("$ muster doctor")
        tell.show(cluster.muster("doctor", check=False))
        tell.say("$ muster up --agents 4")
        cluster.start()
        tell.say(f"The cluster is up at {cluster.url}:")
        tell.show(cluster.muster("get", "nodes", "-o", "wide"))
        story = Story(cluster, tell, trainer)
        story.submit()
        story.kill_a_rank()
        story.lose_a_node()
        story.kill_an_agent()
        story.kill_the_control_plane()
        story.succeed()
        story.compare()
        story.describe()
    except StoryFailed as failure:
        tell.say(f"The story cannot go on: {failure}")
        return False
    return True


def end(cluster: Cluster, tell: Narrator) -> None:
    tell.chapter("The end")
    code = cluster.stop()
    tell.claim(code == 0, f"muster up has ended cleanly by SIGTERM (exit code {code})")
    try:
        until("all processes to be gone", lambda: not processes_of(cluster.folder), patience=15)
        tell.claim(True, "no process of the cluster is left")
    except StoryFailed:
        tell.claim(False, f"no process of the cluster is left (found: {processes_of(cluster.folder)})")


def invite(cluster: Cluster) -> None:
    print(f"""The cluster is still up at {cluster.url} (every call: {cluster.url}/openapi.json). Try:

    export MUSTER_DATA_DIR='{cluster.data}'
    ./run muster get nodes
    ./run muster describe job {"light-digits" if (cluster.folder / "examples/runs/light-digits").exists() else "ddp-digits"}
    ./run muster apply -f examples/hello.yaml && ./run muster logs -f hello
    ./run muster down
""")


if __name__ == "__main__":
    sys.exit(main())
