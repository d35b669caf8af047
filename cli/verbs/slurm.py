"""`muster slurm`: the commands of those who come from Slurm."""

import sys
from pathlib import Path

import click

from cli.errors import Exit, Failure
from cli.group import Suggesting
from cli.output import say
from cli.slurm.main import COMMANDS, call


class _Slurm(Suggesting):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["install", *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return install if cmd_name == "install" else _command(cmd_name) if cmd_name in COMMANDS else None


def _command(name: str) -> click.Command:
    @click.command(
        name,
        help=f"As {name} of Slurm; `muster slurm {name} --help` lists the options that are known here.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> int:
        return call(name, words)

    return command


@click.group(cls=_Slurm)
def slurm() -> None:
    """sbatch, srun, squeue, scancel, sacct, sinfo, salloc, scontrol: scripts run as they are."""


@click.command(epilog="Example:  muster slurm install ~/bin")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace commands that are there already.")
def install(directory: Path, force: bool) -> None:
    """Put sbatch and its kin into DIRECTORY, to be found on the PATH."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        there = [name for name in COMMANDS if (directory / name).exists() and not _ours(directory / name)]
        if there and not force:
            raise Failure(
                f"{directory} has {', '.join(there)} already", code=Exit.REFUSED, hint="--force replaces them"
            )
        for name in COMMANDS:
            path = directory / name
            path.unlink(missing_ok=True)
            path.write_text(
                f"#!{sys.executable} -P\n# One of Muster's commands for who comes from Slurm.\nimport sys\n\n"
                f'from cli.slurm.main import main\n\nsys.exit(main("{name}"))\n'
            )
            path.chmod(0o755)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None
    say(f"{directory}: {', '.join(COMMANDS)}")


def _ours(path: Path) -> bool:
    try:
        return "from cli.slurm.main import main" in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False
