"""`topics uninstall`."""

from __future__ import annotations

import sys

import click

from shell.command import CommandConnection


@click.option("--yes", is_flag=True, help="do not ask")
@click.pass_obj
def uninstall(connection: CommandConnection, yes: bool) -> None:
    """Remove topics from the application's database: its schema, with all topics. Stop topics before.

    The command counts the topics, and asks. The application's own tables stay as they are.
    """
    if not yes and sys.stdin is None:
        raise click.UsageError("standard input is closed, so nobody can answer the question: add --yes")
    connection.only_local()
    held = connection.site.installed()
    if not yes:  # it asks also where nobody sits at a terminal: a script that ends all topics has to say so
        click.confirm(f"Delete {held}?", abort=True, err=True)
    click.echo(connection.site.uninstall())
