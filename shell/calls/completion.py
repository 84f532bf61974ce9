"""`topics completion`: prints a script that completes commands, options and names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

COMPLETE = "_TOPICS_COMPLETE"  # in the environment, when a shell asks for completions
# Bash also splits words at colons, which names can contain.
WHOLE_NAMES = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}"


@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what completes commands, options and names in a shell. The program has to be called `topics` there."""
    maker = get_completion_class(shell)
    assert maker is not None, f"click knows {shell}"
    click.echo(maker(context.find_root().command, {}, "topics", COMPLETE).source())
    if shell == "bash":
        click.echo(WHOLE_NAMES)
