"""`muster replay`."""

import subprocess
import sys

import click


@click.command(epilog="Example:  muster replay /var/lib/muster/decisions/*.plan")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON list instead of text.")
def replay(files: tuple[str, ...], as_json: bool) -> None:
    """Make recorded decisions again, offline, and tell whether the plan is the same.

    The controller records decisions with their index where MUSTER_DECISIONS names a folder. Ends with 0 when every plan
    is as recorded, 1 when one is not, 2 when a file cannot be read. Needs no cluster.
    """
    words = [sys.executable, "-P", "-m", "controller.replay", *(["--json"] if as_json else []), *files]
    if code := subprocess.run(words, check=False).returncode:
        click.get_current_context().exit(code)
