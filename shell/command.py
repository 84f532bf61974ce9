"""The base of every command. Options may stand anywhere, and the help ends with examples that run exactly as printed. All
commands take `--url` and `--key`, which choose the server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from base.errors import TopicsError
from base.refusal import Refusal
from shell.remote import Remote
from shell.server import CommandServer, listed, path

C = TypeVar("C", bound=Callable[..., Any])

COMPLETION_SECONDS = 2  # seconds to look up names; after them, no name is offered
MOST_OFFERED = 200


class LocalInstance(NamedTuple):
    """The instance of this machine. `enter` makes the database usable, and with False refuses a folder that no instance has used.

    `is_up` tells whether the servers run. `backup`, `restore` and `uninstall` return a report, and `installed` counts the
    topics that an uninstall would delete. They know programs and tables outside of this package.
    """

    enter: Callable[[bool], AbstractContextManager[None]]
    is_up: Callable[[], bool]
    backup: Callable[[Path], str]
    restore: Callable[[Path, bool], str]
    installed: Callable[[], str]
    uninstall: Callable[[], str]


class CommandConnection:
    """The server of the commands, created at first use."""

    def __init__(self, site: LocalInstance, stack: ExitStack) -> None:
        self.site, self.stack = site, stack
        self.url: str | None = None
        self.key: str | None = None
        self.key_is_given = False  # on the command line
        self._server: CommandServer | None = None

    @property
    def server(self) -> CommandServer:
        """Returns the server. Raises Refusal if --url or --key is invalid."""
        if self._server is None:
            self._server = self.local() if self.url is None else Remote(self.url, self.key)
        return self._server

    def local(self, may_be_new: bool = False) -> CommandServer:
        if self.key_is_given:
            raise Refusal(
                "--key needs --url: without --url, the command uses the database of this machine, which needs no key"
            )
        self.stack.enter_context(self.site.enter(may_be_new))
        from shell.local import Local  # needs Django, unlike a remote server

        return Local()

    def only_local(self, may_be_new: bool = False) -> None:
        """Makes sure that commands can use the database directly. Raises Refusal for a remote server.

        `may_be_new`: whether the command also takes a folder that no instance has used.
        """
        if self.url is not None:
            raise Refusal("this command uses the database of this machine: leave out --url, and unset TOPICS_URL")
        self._server = self.local(may_be_new)

    def for_completion(self) -> CommandServer | None:
        """Returns a server that answers at once, or None."""
        if self.url is not None:
            return Remote(self.url, self.key, COMPLETION_SECONDS, retries=0)
        return self.local() if self.site.is_up() else None


def take(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Stores --url or --key. Options of the command win over options before the command, which win over the environment."""
    connection = context.find_root().obj
    if value is not None and isinstance(connection, CommandConnection):
        setattr(connection, str(option.name), value)
        if option.name == "key":
            source = context.get_parameter_source("key")
            connection.key_is_given = source is click.core.ParameterSource.COMMANDLINE


def addressing(*, environment: bool) -> list[click.Parameter]:
    """Returns --url and --key. For all commands together, the options also read the environment."""
    return [
        click.Option(
            ["--url"],
            metavar="URL",
            envvar="TOPICS_URL" if environment else None,
            help="URL of a server elsewhere, https://host (default: the variable TOPICS_URL)",
            expose_value=False,
            callback=take,
        ),
        click.Option(
            ["--key"],
            metavar="SECRET",
            envvar="TOPICS_KEY" if environment else None,
            help="API key for the server. Prefer the variable TOPICS_KEY: other users can see commands",
            expose_value=False,
            callback=take,
        ),
    ]


class ShellCommand(click.Command):
    """A command. `examples` are shell command lines, in which `topics` stands for the program."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += addressing(environment=False)
        self.examples = examples

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        program = context.find_root().info_name or "topics"
        formatter.write_paragraph()
        formatter.write("Examples:\n" if len(self.examples) > 1 else "Example:\n")
        for example in self.examples:
            formatter.write(f"  {example.replace('topics ', f'{program} ')}\n")


class Calls(click.Group):
    command_class = ShellCommand
    group_class = type


class Named(click.ParamType):
    """The name of an object of the server, with completion."""

    def __init__(self, kind: str) -> None:
        self.name = self.kind = kind

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        connection = context.find_root().obj
        try:
            server = connection.for_completion()
            if server is None:
                return []
            return [CompletionItem(name) for name in names(server, self.kind, incomplete, context)]
        except (TopicsError, SystemExit, OSError):
            return []  # an error would disturb the line that the user types


def names(server: CommandServer, kind: str, prefix: str, context: click.Context) -> list[str]:
    """Returns the first MOST_OFFERED names with this prefix."""
    if kind in ("cursor", "group", "schedule"):
        found = listed(server, path("topics", context.params["topic"], f"{kind}s"), f"{kind}s")
    else:
        found = listed(server, path(f"{kind}s"), f"{kind}s", {"prefix": prefix})
    those = (each[kind] for each in found if each[kind].startswith(prefix))
    return [name for name, _ in zip(those, range(MOST_OFFERED), strict=False)]


TOPIC, ROUTER, CURSOR, GROUP, SCHEDULE, WEBHOOK = map(
    Named, ("topic", "router", "cursor", "group", "schedule", "webhook")
)
SEQ = click.IntRange(0, 2**63 - 1)


def seqs(help: str) -> Callable[[C], C]:
    """Returns the option --seq of a command that takes single records. `help`: what the command does with a record."""
    numbers = click.IntRange(1, 2**63 - 1)
    return click.option("--seq", "seqs", type=numbers, multiple=True, help=f"{help}. You can repeat the option")


def confirm(question: Callable[[], str | None]) -> None:
    """Asks before something is deleted or moved, if somebody sits at a terminal. Raises click.Abort.

    `question`: makes the question, or None if there is nothing to ask. Elsewhere nobody could answer, so nothing is asked.
    """
    if sys.stdin is not None and sys.stdin.isatty() and (asked := question()) is not None:
        click.confirm(asked, abort=True, err=True)


def prints_answer(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command its connection, and the option --json."""
    option = click.option("--json", "is_json", is_flag=True, help="print the API's answer, one JSON object per line")
    return option(click.pass_obj(command))
