"""The `muster` command. Each verb is imported only when it is used: a command must answer at once."""

import importlib
import os
import sys
from typing import Any, Final

import click

from cli.errors import Exit, Failure
from cli.group import Suggesting

VERBS: Final[dict[str, tuple[str, str]]] = {
    "up": ("cli.up.command:up", "Start an embedded cluster in the foreground."),
    "down": ("cli.verbs.down:down", "Stop the embedded cluster and all that runs in it."),
    "doctor": ("cli.verbs.doctor:doctor", "Check whether this machine can run a cluster."),
    "init": ("cli.verbs.init:init", "Write a commented manifest for a framework."),
    "apply": ("cli.verbs.apply:apply", "Create or change what manifests describe."),
    "submit": ("cli.verbs.submit:submit", "Submit a job in one line."),
    "run": ("cli.verbs.submit:run", "Run a command on the cluster as if it were here."),
    "create": ("cli.verbs.edit:create", "Create what manifests describe, and change nothing that is there."),
    "diff": ("cli.verbs.edit:diff", "Show what apply would change."),
    "edit": ("cli.verbs.edit:edit", "Change one thing in your editor."),
    "patch": ("cli.verbs.edit:patch", "Change some fields of a thing."),
    "label": ("cli.verbs.edit:label", "Set and take away labels of jobs."),
    "annotate": ("cli.verbs.edit:annotate", "Set and take away annotations of jobs."),
    "scale": ("cli.verbs.edit:scale", "Change the number of workers of a job."),
    "priority": ("cli.verbs.edit:priority", "Change the priority class of a job."),
    "explain": ("cli.verbs.explain:explain", "Tell what a field of a manifest means."),
    "get": ("cli.verbs.get:get", "List jobs, nodes, queues, events, attempts, checkpoints."),
    "describe": ("cli.verbs.describe:describe", "Tell all about one job, node or queue."),
    "why": ("cli.verbs.why:why", "Tell why a job waits, what would help, and when it will start."),
    "goodput": ("cli.verbs.goodput:goodput", "Tell what device time went to, and what failures cost."),
    "whatif": ("cli.verbs.whatif:whatif", "Ask what would start, and when, if something were different."),
    "logs": ("cli.verbs.logs:logs", "Print what the ranks of a job wrote."),
    "exec": ("cli.verbs.exec:exec_", "Run a command beside the ranks of a job."),
    "attach": ("cli.verbs.exec:attach", "Show what a rank prints from now on."),
    "port-forward": ("cli.verbs.forward:port_forward", "Reach a port that a rank listens on."),
    "events": ("cli.verbs.events:events", "Tell what happened, and with -w what happens."),
    "wait": ("cli.verbs.wait:wait", "Wait until a job is where you want it."),
    "delete": ("cli.verbs.delete:delete", "Cancel a live job, remove a finished one; remove a queue."),
    "suspend": ("cli.verbs.steer:suspend", "Stop a job and keep its place and its checkpoints."),
    "resume": ("cli.verbs.steer:resume", "Let a suspended job go on from its checkpoint."),
    "restart": ("cli.verbs.steer:restart", "End the attempt of a job and begin a new one."),
    "cancel": ("cli.verbs.steer:cancel", "End a job for good."),
    "cordon": ("cli.verbs.cordon:cordon", "Let nothing new start on a node."),
    "node": ("cli.verbs.node:node", "Measure nodes by ordinary jobs, and what was measured."),
    "drain": ("cli.verbs.drain:drain", "Empty a node: what runs there goes on elsewhere."),
    "taint": ("cli.verbs.taint:taint", "Keep jobs that do not tolerate it off a node."),
    "uncordon": ("cli.verbs.cordon:uncordon", "Take a cordoned node back into use."),
    "admin": ("cli.verbs.admin:admin", "Check that the cluster keeps its promises; see to dead letters."),
    "fabric": ("cli.verbs.fabric:fabric", "Read what describes the fabric: Slurm, InfiniBand, labels, CSV."),
    "lab": ("cli.verbs.lab:lab", "Break the embedded cluster on purpose."),
    "diagnose": ("cli.verbs.diagnose:diagnose", "Tell from logs which rank failed, why, and what to do."),
    "simulate": ("cli.verbs.simulate:simulate", "Run your own jobs on a cluster in thought, for capacity planning."),
    "replay": ("cli.verbs.replay:replay", "Make recorded decisions again, and tell whether they come out the same."),
    "slurm": ("cli.verbs.slurm:slurm", "sbatch, srun, squeue and their kin: scripts of Slurm run as they are."),
    "top": ("cli.verbs.top:top", "Watch the cluster on a full screen."),
    "cp": ("cli.verbs.cp:cp", "Copy files from a job, or to one."),
    "queue": ("cli.verbs.queue:queue", "Show the queues as a tree, or who waits in one."),
    "token": ("cli.verbs.token:token", "Make, list and revoke tokens."),
    "auth": ("cli.verbs.token:auth", "Tell who one is and what one may do."),
    "config": ("cli.verbs.config:config", "Keep clusters by name, and choose one."),
    "api-resources": ("cli.verbs.about:api_resources", "List the kinds of things and their short names."),
    "completion": ("cli.verbs.about:completion", "Let your shell complete verbs, options and names."),
    "version": ("cli.verbs.version:version", "Print the versions of client and server."),
}

EPILOG: Final = """\b
Exit codes:
  0    done
  1    an error
  2    wrong usage
  3    there is no such thing
  4    refused: not valid, not allowed, or not in this state
  5    the cluster cannot be reached
  124  `wait` ran out of time

\b
The cluster is MUSTER_SERVER with MUSTER_TOKEN or MUSTER_TOKEN_FILE; else the
context MUSTER_CONTEXT; else the embedded one of MUSTER_DATA_DIR; else the
current context (`muster config`); else the embedded one of ~/.muster.
Programs `muster-NAME` on the PATH are verbs, too."""


class Verbs(Suggesting):
    """Knows all verbs by name and help; loads the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from cli import plugins

            found = plugins.program(args)
            if found is not None:
                plugins.execute(*found)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in VERBS.items()])


@click.command(
    cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
def cli() -> None:
    """Schedules training jobs onto a cluster of accelerators, and recovers them."""


def run(words: list[str] | None = None) -> int:
    """One command line; its exit code. Whatever goes wrong is told on standard error, in words."""
    try:
        if "_MUSTER_COMPLETE" in os.environ:  # the shell asks what may come next
            cli.main(args=words, prog_name="muster", complete_var="_MUSTER_COMPLETE")
        result = cli.main(args=words, prog_name="muster", standalone_mode=False)
        sys.stdout.flush()
        return int(result) if isinstance(result, int) else Exit.OK
    except Failure as failure:
        return _tell(failure)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Exit.USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "muster"
        return _tell(Failure(_plain(error.format_message()), code=Exit.USAGE, hint=f"see `{path} --help`"))
    except click.ClickException as error:
        return _tell(Failure(_plain(error.format_message())))
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as in `muster get jobs | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _tell(failure: Failure) -> int:
    for line in failure.lines():
        click.echo(line, err=True)
    return failure.code


def _plain(message: str) -> str:
    """click's sentences in the form of ours: lower case, no full stop."""
    return (message[:1].lower() + message[1:]).rstrip(".")


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
