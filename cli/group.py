"""A group of commands that says what was probably meant."""

from typing import Any

import click

from cli.errors import Exit, Failure, suggestion


class Suggesting(click.Group):
    """Raises Failure for an unknown command, with the nearest one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            hint = suggestion(args[0], known) or f"see `{ctx.command_path} --help`"
            raise Failure(f'unknown command "{args[0]}"', code=Exit.USAGE, hint=hint)
        return super().resolve_command(ctx, args)
