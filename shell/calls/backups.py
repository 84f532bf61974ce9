"""`topics backup` and `topics restore`."""

from __future__ import annotations

from pathlib import Path

import click

from shell.command import CommandConnection

FILE = click.Path(path_type=Path)


@click.argument("file", type=FILE)
@click.pass_obj
def backup(connection: CommandConnection, file: Path) -> None:
    """Write the whole database to a new FILE, in the custom format of pg_dump. Topics can run meanwhile.

    The command ends with a check: each table has as many rows in FILE as in the database.
    """
    connection.only_local()
    click.echo(connection.site.backup(file.absolute()))


@click.argument("file", type=FILE)
@click.option("--force", is_flag=True, help="delete the topics that the database holds")
@click.pass_obj
def restore(connection: CommandConnection, file: Path, force: bool) -> None:
    """Replace the database by the backup in FILE, and bring the database up to date. Stop topics before.

    A failed restore changes nothing.
    """
    connection.only_local(may_be_new=True)
    click.echo(connection.site.restore(file.absolute(), force))
