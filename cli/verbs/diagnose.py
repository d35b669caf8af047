"""`muster diagnose`."""

import subprocess
import sys

import click

from cli.errors import Exit


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def diagnose(files: tuple[str, ...], as_json: bool) -> None:
    """Tell from logs which rank failed, why, and what to do about it.

    Reads plain and gzipped logs, Slurm output files, one log per rank, folders of logs, kernel logs and evidence
    bundles (JSON), all together: name everything that belongs to one failure. `-` is standard input. Needs no cluster.
    """
    words = [sys.executable, "-P", "-m", "controller.diagnose", *(["--json"] if as_json else []), *files]
    if subprocess.run(words, check=False).returncode:
        click.get_current_context().exit(Exit.ERROR)
