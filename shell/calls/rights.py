"""`topics rights`: which topics a login of PostgreSQL may use by the functions of the schema `topics` (docs/sql.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from shell.command import CommandConnection, prints_answer
from shell.printing import say
from shell.table import Column, print_table

SCOPES = ("read", "write", "commit")
COLUMNS = (Column("login", "login", "<24"), Column("prefix", "prefix", "<24"), Column("scopes", "scopes", "<"))
C = TypeVar("C", bound=Callable[..., Any])


def of_login(call: C) -> C:
    """The arguments and options of a grant or a revoke."""
    call = click.option(
        "--prefix", default="", metavar="PREFIX", help="topics that start with this (default: every topic)"
    )(call)
    call = click.option(
        "--scope", "scopes", type=click.Choice(SCOPES), multiple=True, help="what to do with them (default: everything)"
    )(call)
    return click.argument("login")(call)


@of_login
@click.pass_obj
def grant(connection: CommandConnection, login: str, prefix: str, scopes: tuple[str, ...]) -> None:
    """Let a LOGIN of PostgreSQL use the topics with a prefix, and no others.

    LOGIN can be a role, too. Then the right holds for its members.
    """
    connection.only_local()
    from door import rights  # needs Django

    missing = rights.grant(login, prefix, list(scopes or SCOPES))
    tell_captures(login)
    for role in missing:
        say(f"this user may not grant the role: run `GRANT {role} TO {login}` as its owner")
    if missing:
        raise click.exceptions.Exit(1)


@of_login
@click.pass_obj
def revoke(connection: CommandConnection, login: str, prefix: str, scopes: tuple[str, ...]) -> None:
    """Take a right from a LOGIN, from its next call on. If no right is left, the login may use no topic.

    Captures of its tables stay, and the command names those whose topic the login may not write.
    """
    connection.only_local()
    from door import rights

    rights.revoke(login, prefix, list(scopes or SCOPES))
    tell_captures(login)


def tell_captures(login: str) -> None:
    """Says which captures still send changes to topics that the login may not write."""
    from outbox.captures import outliving
    from store.script import run

    for table, topic in run(outliving(login)):
        say(
            f"the changes of {table} still go to {topic}: SELECT topics.uncapture('{table}') ends it, as an owner of the table"
        )


@click.argument("login")
@click.pass_obj
def forget(connection: CommandConnection, login: str) -> None:
    """Delete the limits of a LOGIN. Its roles then count, for every topic."""
    connection.only_local()
    from door import rights

    click.echo(f"deleted {rights.forget(login)} rights of {login}.")


@click.argument("login", required=False)
@prints_answer
def list_rights(connection: CommandConnection, login: str | None, is_json: bool) -> None:
    """Show the rights of a LOGIN, or of all."""
    connection.only_local()
    from door import rights

    found = rights.rights(login)
    if is_json:
        for right in found:
            click.echo(json.dumps(right._asdict()))
        return
    rows = (
        {
            "login": right.login if right.exists else f"{right.login} (absent)",
            "prefix": right.prefix or "*",
            "scopes": right.scopes or "nothing",
        }
        for right in found
    )
    print_table(COLUMNS, rows)
