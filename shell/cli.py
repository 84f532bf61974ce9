"""The commands of `topics`, and their exit codes (docs/cli.md).

Bad input prints one line on standard error and exits with 1. A wrong command line or a closed stream exits with 2, a
closed pipe with 141, Ctrl-C with 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import click
from click.shell_completion import shell_complete

from base.errors import TopicsError
from base.refusal import Refusal
from shell.calls import (
    append,
    backups,
    completion,
    cursors,
    groups,
    mirror,
    outbox,
    reading,
    redrive,
    rights,
    routers,
    schedules,
    topics,
    uninstall,
    webhooks,
    work,
)
from shell.calls.completion import COMPLETE
from shell.command import Calls, CommandConnection, LocalInstance, addressing
from shell.interrupt import INTERRUPTED
from shell.streams import check_streams, discard, end_output, messages

# Commands that use the database of this machine, and have no call of the API.
ONLY_HERE = ("usage", "backup", "restore", "outbox", "rights", "uninstall")
PIPE_CLOSED = 128 + 13  # exit code that a shell reports for a process that SIGPIPE ended

program = Calls(
    "topics", params=addressing(environment=True), help="Append to topics, read topics and manage topics from a shell."
)
program.command(
    examples=[
        "topics append orders events.jsonl",
        """echo '{"id": 7, "total": 19.90}' | topics append orders --tag-field id""",
        "gzip -c events.jsonl | topics append orders --skip-bad bad.jsonl",
    ]
)(append.append)
program.command(
    examples=["topics tail orders -n 3", "topics tail orders -n 3 --match 7", "topics tail -f orders payments"]
)(reading.tail)
program.command(examples=["topics export orders --from-seq 1 > orders.jsonl"])(reading.export)
program.command(examples=["topics ls", "topics ls or --json"])(reading.ls)
program.command(short_help="Show how much is stored, and why.", examples=["topics usage"])(reading.usage)
program.command(short_help="Write the whole database to a file.", examples=["topics backup monday.dump"])(
    backups.backup
)
program.command(
    short_help="Replace the database by a backup.",
    examples=["topics restore monday.dump", "topics restore monday.dump --force"],
)(backups.restore)
program.command(
    examples=[
        "topics create payments --cap-records 1000000 --durability fsync",
        "topics create jobs-dead",
        "topics create jobs --type queue --max-deliveries 5 --dead-letter jobs-dead",
    ]
)(topics.create)
program.command(examples=["topics get orders", "topics get orders --json"])(topics.get)
program.command(
    short_help="Delete records of a topic, by seq or tag.",
    examples=["topics trim orders --before-seq 2", "topics trim orders --match 7"],
)(topics.trim)

of_routers = program.group("routers", help="Forward records from topic to topic.")(lambda: None)
of_routers.command(examples=["topics routers put orders-to-audit orders audit --from earliest"])(routers.put)
of_routers.command(examples=["topics routers get orders-to-audit"])(routers.get)
of_routers.command("list", examples=["topics routers list --source orders"])(routers.list_routers)
of_routers.command(examples=["topics routers delete orders-to-audit"])(routers.delete)

of_cursors = program.group("cursors", help="Manage the positions of a topic's readers.")(lambda: None)
of_cursors.command(examples=["topics cursors put orders billing --at earliest"])(cursors.put)
of_cursors.command(examples=["topics cursors get orders billing --json"])(cursors.get)
of_cursors.command("list", examples=["topics cursors list orders"])(cursors.list_cursors)
of_cursors.command(examples=["topics cursors delete orders billing"])(cursors.delete)

of_groups = program.group("groups", help="Look at the consumer groups of a topic.")(lambda: None)
of_groups.command("list", examples=["topics groups list orders"])(groups.list_groups)
of_groups.command(examples=["topics groups get orders billing"])(groups.get)
of_groups.command(examples=["topics groups delete orders no-longer-wanted"])(groups.delete)

program.command(
    short_help="Run a command for each job of a queue.",
    examples=["topics work jobs --once -- cat"],
)(work.work)
program.command(
    short_help="Move dead letters back to their queues.",
    examples=["topics redrive jobs-dead --dry-run", "topics redrive jobs-dead --queue jobs --limit 10 --yes"],
)(redrive.redrive)

of_schedules = program.group("schedules", help="Give a queue jobs later, or again and again.")(lambda: None)
of_schedules.command(
    short_help="Create or replace a schedule.",
    examples=[
        """topics schedules put jobs nightly --cron '0 3 * * *' --timezone Europe/Berlin --data '{"report": "daily"}'""",
        """topics schedules put jobs reminder-7 --not-before 2099-01-31T08:00+01:00 --data '{"to": "ada"}'""",
    ],
)(schedules.put)
of_schedules.command(examples=["topics schedules get jobs nightly"])(schedules.get)
of_schedules.command("list", examples=["topics schedules list jobs"])(schedules.list_schedules)
of_schedules.command(examples=["topics schedules delete jobs nightly"])(schedules.delete)

of_webhooks = program.group("webhooks", help="Send the records of topics to a URL.")(lambda: None)
of_webhooks.command(
    short_help="Create a webhook, or replace its config.",
    examples=[
        "topics webhooks put shop https://shop.example/hooks orders",
        "topics webhooks put shop https://shop.example/hooks 'shop.*' --format batch --max-batch 500",
    ],
)(webhooks.put)
of_webhooks.command(examples=["topics webhooks get shop"])(webhooks.get)
of_webhooks.command("list", examples=["topics webhooks list"])(webhooks.list_webhooks)
of_webhooks.command(
    short_help="List the last calls of a webhook.",
    examples=[
        "topics webhooks deliveries shop --state failed",
        "topics webhooks deliveries shop --topic orders --seq 7",
    ],
)(webhooks.deliveries)
of_webhooks.command(
    short_help="Send records again.",
    examples=[
        "topics webhooks replay shop --failed --dry-run",
        "topics webhooks replay shop --failed --topic orders",
    ],
)(webhooks.replay)
of_webhooks.command(examples=["topics webhooks test shop"])(webhooks.test)
of_webhooks.command(short_help="Give a webhook another secret.", examples=["topics webhooks rotate shop"])(
    webhooks.rotate
)
of_webhooks.command(examples=["topics webhooks pause shop"])(webhooks.pause)
of_webhooks.command(short_help="Resume a webhook.", examples=["topics webhooks resume shop"])(webhooks.resume)
of_webhooks.command(short_help="Delete a webhook.", examples=["topics webhooks delete shop"])(webhooks.delete)

of_outbox = program.group("outbox", help="Look at emitted records that have not arrived.")(lambda: None)
of_outbox.command("list", examples=["topics outbox list", "topics outbox list --json"])(outbox.list_waiting)
of_outbox.command(
    short_help="Delete the first record that waits for a topic.", examples=["topics outbox skip orders --yes"]
)(outbox.skip)
of_outbox.command(
    short_help="Let the relay try a topic at once.", examples=["topics outbox retry", "topics outbox retry orders"]
)(outbox.retry)

of_rights = program.group("rights", help="Limit a login of PostgreSQL to some topics.")(lambda: None)
of_rights.command(examples=["topics rights grant topics_reader --prefix shop. --scope read"])(rights.grant)
of_rights.command(examples=["topics rights revoke topics_reader --prefix shop. --scope read"])(rights.revoke)
of_rights.command(examples=["topics rights forget topics_reader"])(rights.forget)
of_rights.command("list", examples=["topics rights list"])(rights.list_rights)

program.command(
    short_help="Mirror topics between two servers.",
    examples=["topics mirror https://iad.example chat --here fra --there iad"],
)(mirror.mirror)

program.command(
    short_help="Delete a topic with its records.",
    examples=["topics delete audit --yes", "topics delete payments --if-empty"],
)(topics.delete)
program.command(
    short_help="Remove topics from the application's database.",
    examples=["topics uninstall --yes"],
)(uninstall.uninstall)
program.command(
    short_help="Print a script that completes commands in a shell.",
    examples=["topics completion bash > topics.bash", "source topics.bash"],
)(completion.completion)


def main(arguments: Sequence[str], name: str, site: LocalInstance) -> None:
    """Runs the command in the arguments, or completes a command line if a shell asks for that. `name` is the program's name.

    Raises SystemExit or Refusal after an error.
    """
    with ExitStack() as stack:
        connection = CommandConnection(site, stack)
        try:
            check_streams()
            if instruction := os.environ.get(COMPLETE):
                raise SystemExit(shell_complete(program, {"obj": connection}, "topics", COMPLETE, instruction))
            with program.make_context(name, list(arguments), obj=connection) as context:
                program.invoke(context)
            sys.stdout.flush()
        except click.exceptions.Exit as end:
            raise SystemExit(end.exit_code) from None
        except click.ClickException as error:
            with messages():
                error.show()
            raise SystemExit(error.exit_code) from None
        except click.Abort:
            raise SystemExit("topics: cancelled, nothing was changed") from None
        except BrokenPipeError:
            discard(sys.stdout)
            raise SystemExit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            discard(sys.stdout)
            raise SystemExit(INTERRUPTED) from None
        except TopicsError as error:
            raise Refusal(error.message) from error
        except OSError as error:
            end_output()
            raise Refusal(f"{error.filename or 'a file'}: {error.strerror or error}") from error
