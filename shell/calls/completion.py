"""`topics completion`: what a shell reads to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

COMPLETE = "_TOPICS_COMPLETE"  # in the environment: the shell asks what may follow
# Bash splits the line at colons too, and names have them.
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
