"""Writes the table of commands in docs/cli.md from the commands' own help. `make docs` runs it; a test compares the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import click  # noqa: E402
from tables import replaced  # noqa: E402

from shell.cli import program  # noqa: E402

HEAD = "| command or option | meaning |"
EVERYWHERE = ("url", "key", "is_json")  # the page describes them before the table


def page(text: str) -> str:
    """Returns the page with its table as the commands say it."""
    return replaced(text, HEAD, lambda: rows(program, "topics"))


def rows(group: click.Group, path: str) -> Iterator[str]:
    """Yields the row of each command, and below it the rows of its options."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from rows(command, f"{path} {name}")
            continue
        context = click.Context(command)
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        usage = " ".join([path, name, *(shown(each, context) for each in arguments)])
        values = "".join(
            f" {shown(each, context)}:{chosen(each.type)}" for each in arguments if isinstance(each.type, click.Choice)
        )
        said = " ".join((command.help or "").split()) + values + "".join(map(variable, arguments))
        yield f"| **`{usage}`** | {said} |"
        for each in command.params:
            if isinstance(each, click.Option) and each.name not in EVERYWHERE:
                names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
                yield f"| {names}{taken(each, context)} | {each.help or ''}{variable(each)} |"


def shown(argument: click.Argument, context: click.Context) -> str:
    return str(argument.name).upper() if isinstance(argument.type, click.Choice) else argument.make_metavar(context)


def taken(option: click.Option, context: click.Context) -> str:
    """Returns the values that the option takes, or nothing for a flag."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return ":" + chosen(option.type)
    metavar = option.make_metavar(context)
    return f" `{'N' if metavar == 'INTEGER RANGE' else metavar}`"


def chosen(of: click.Choice) -> str:
    return " " + ", ".join(f"`{each}`" for each in of.choices)


def variable(of: click.Parameter) -> str:
    """Returns the variable that stands for an argument or option, if its help does not name it."""
    return f" (`{of.envvar}`)" if of.envvar and str(of.envvar) not in (getattr(of, "help", None) or "") else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
