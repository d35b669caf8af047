"""`muster cp`: files to and from the worker of a job, by tar on both sides."""

import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

import click

from cli import options
from cli.errors import Exit, Failure
from cli.names import job_name


@click.command(epilog="Examples:\n  muster cp sft:out/metrics.json .\n  muster cp config.yaml sft:/tmp/config.yaml")
@click.argument("source")
@click.argument("target")
@options.namespace
@click.option("--worker", metavar="ROLE-INDEX", help="This worker; by default the one with rank 0.")
def cp(source: str, target: str, namespace: str, worker: str | None) -> None:
    """Copy files and folders from a job (JOB:PATH) or to one; a relative PATH there begins at its workdir."""
    came, goes = _remote(source), _remote(target)
    if (came is None) == (goes is None):
        raise Failure("one of the two must be JOB:PATH", code=Exit.USAGE)
    if came is not None:
        _fetch(*came, Path(target), _exec(came[0], namespace, worker))
    elif goes is not None:
        _send(Path(source), goes[1], _exec(goes[0], namespace, worker))


def _remote(text: str) -> tuple[str, str] | None:
    """(job, path) of JOB:PATH; a path that is there, or begins with . or /, is one of this machine."""
    job, colon, path = text.partition(":")
    if not colon or text.startswith((".", "/")) or "/" in job.removeprefix("job/"):
        return None
    if not path:
        raise Failure(f"{text}: the path is missing", code=Exit.USAGE)
    return job_name(job), path


def _exec(job: str, namespace: str, worker: str | None) -> list[str]:
    words = [sys.executable, "-P", "-m", "cli.main", "exec", "-n", namespace, job]
    return words + (["--worker", worker] if worker else [])


def _fetch(job: str, path: str, target: Path, base: list[str]) -> None:
    there = PurePosixPath(path)
    command = [*base, "--", "tar", "cf", "-", "-C", str(there.parent), there.name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    into, name = (target, there.name) if target.is_dir() else (target.parent, target.name)
    try:
        with tarfile.open(fileobj=process.stdout, mode="r|") as packed:
            for one in packed:
                rest = PurePosixPath(one.name).relative_to(there.name)
                packed.extract(one.replace(name=str(PurePosixPath(name) / rest), deep=False), into, filter="data")
    except tarfile.ReadError:
        pass  # the other side has said why
    except (OSError, tarfile.TarError, ValueError) as error:
        process.kill()
        raise Failure(f"{target}: {error}") from None
    finally:
        process.stdout.close()
    if code := process.wait():
        raise Failure(f"{job}:{path} could not be read", code=Exit(code) if code in list(Exit) else Exit.ERROR)


def _send(source: Path, path: str, base: list[str]) -> None:
    if not source.exists():
        raise Failure(f"{source}: there is no such file", code=Exit.NOT_FOUND)
    there = PurePosixPath(path + source.name if path.endswith("/") else path)
    command = [*base, "-i", "--", "tar", "xf", "-", "-C", str(there.parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        with tarfile.open(fileobj=process.stdin, mode="w|") as packed:
            packed.add(source, arcname=there.name)
        process.stdin.close()
    except BrokenPipeError:
        pass
    if code := process.wait():
        raise Failure(f"{path} could not be written there", code=Exit(code) if code in list(Exit) else Exit.ERROR)
