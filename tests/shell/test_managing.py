"""`topics create`, `get`, `delete`, `trim`, `routers …`, `webhooks …` and others: as in the API, here and over HTTP."""

import base64
import json
import os
import pty
import sys
from typing import Any

import click
import msgspec
import pytest
from django.db import connection

from shell.cli import main, program
from shell.local import Local
from shell.server import listed
from tests.groups.member import session_of
from tests.instances import Instance
from tests.shell.conftest import HERE, Shell
from topics.config import Config


def answered(run: Shell, *arguments: object) -> Any:
    """Returns the printed JSON, one value per line."""
    done = run(*arguments, "--json")
    assert (done.code, done.err) == (0, "")
    found = [json.loads(line) for line in done.out.splitlines()]
    return found[0] if len(found) == 1 else found


def test_every_field_of_a_config_has_an_option() -> None:
    options = {parameter.name for parameter in program.commands["create"].params if isinstance(parameter, click.Option)}
    without = {"durable", "auto_create"}  # a shorthand of durability, and a field without an effect
    assert {field.name for field in msgspec.structs.fields(Config)} - options == without


def test_every_field_of_a_webhook_has_an_option() -> None:
    from push.api.webhooks import DeliveriesQuery, ReplayRequest
    from push.webhooks.config import PutWebhook

    def differing(command: str, shape: type[msgspec.Struct]) -> set[str]:
        parameters = program.commands["webhooks"].commands[command].params
        options = {each.name: each for each in parameters}
        fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
        for name, option in options.items():
            if isinstance(option.type, click.Choice):
                assert all(repr(choice) in repr(fields[name]) for choice in option.type.choices), name
        return set(fields) - set(options)

    assert differing("put", PutWebhook) == set()
    assert differing("replay", ReplayRequest) == set()
    assert differing("deliveries", DeliveriesQuery) == {"cursor", "page_size", "from_ts", "to_ts"}


def test_webhooks(either: Shell, name: str) -> None:
    made = either(
        "webhooks", "put", name, "https://example.com/hooks", name, "--order", "none", "--header", "X-Shop: yes"
    )
    first, second = made.out.decode().splitlines()
    assert (made.code, first) == (0, f"{name} is created")
    assert second.startswith("its secret, which is not shown again: whsec_")
    changed = either("webhooks", "put", name, "https://example.com/hooks", name)
    first, second = changed.out.decode().splitlines()
    assert (changed.code, first) == (0, f"{name} is changed")
    assert second.endswith(f"`topics webhooks rotate {name}` makes another")
    given = ("--secret", f"whsec_{base64.b64encode(bytes(24)).decode()}")
    changed = either("webhooks", "put", name, "https://example.com/hooks", name, *given)
    assert changed.out == f"{name} is changed\n".encode()
    found = answered(either, "webhooks", "get", name)
    assert (found["topics"], found["order"], found["headers"], found["state"]) == ([name], "tag", {}, "running")
    assert answered(either, "webhooks", "list", name)["webhook"] == name
    table = [line.split() for line in either("webhooks", "list", name).out.decode().splitlines()]
    assert table == [
        ["DELIVERED", "WAITING", "DEAD", "STATE", "URL", "NAME"],
        ["0", "0", "0", "running", "https://example.com/hooks", name],
    ]
    assert either("webhooks", "pause", name).out == f"{name} is paused\n".encode()
    assert answered(either, "webhooks", "get", name)["state"] == "paused"
    assert either("webhooks", "resume", name).out == f"{name} is running\n".encode()
    assert b"whsec_" in either("webhooks", "rotate", name).out
    counted = either("webhooks", "replay", name, "--failed", "--topic", name, "--dry-run")
    assert (counted.code, counted.out) == (0, b"0 records would be sent again\n")
    assert answered(either, "webhooks", "deliveries", name, "--state", "dead") == []
    refused = either("webhooks", "put", name, "https://example.com/", name, "--header", "X-Shop")
    assert (refused.code, "expected NAME:VALUE" in refused.err) == (2, True)
    assert either("webhooks", "delete", name).out == f"{name} is deleted\n".encode()
    assert either("webhooks", "delete", name).out == f"webhook '{name}' does not exist\n".encode()


def test_a_replay_of_failed_records_keeps_to_its_topic(shell: Shell, name: str) -> None:
    for topic in (f"{name}.a", f"{name}.b"):
        shell("create", topic)
    shell("webhooks", "put", name, "https://example.com/hooks", f"{name}.*")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO push_webhookfailed (webhook_id, topic_id, seq, ts) "
            "SELECT w.id, t.id, 1, 1 FROM push_webhook w, topics_topic t WHERE w.name = %s AND t.name ^@ %s",
            [name, f"{name}."],
        )
    counted = shell("webhooks", "replay", name, "--failed", "--topic", f"{name}.a", "--dry-run")
    assert (counted.code, counted.out) == (0, b"1 record would be sent again\n")
    assert shell("webhooks", "replay", name, "--failed", "--dry-run").out == b"2 records would be sent again\n"


def test_a_topic_is_created_and_changed(either: Shell, name: str) -> None:
    assert either("create", name).out == f"{name} is created\n".encode()
    assert either("create", name).out == f"{name} exists, and has this config\n".encode()
    options = {
        "ttl_ms": 1000,
        "cap_records": 2,
        "cap_bytes": 3,
        "discard": "reject",
        "durability": "fsync",
        "priority": -4,
        "idempotency_window_ms": 5,
    }
    given = [part for option, value in options.items() for part in (f"--{option.replace('_', '-')}", value)]
    config = answered(either, "create", *given, "--no-auto-priority", name, "--no-dedupe-node", "--sealed")["config"]
    wanted = {**options, "auto_priority": False, "dedupe_node": False, "sealed": True}
    assert {option: config[option] for option in wanted} == wanted
    assert answered(either, "get", name)["config"] == config
    shown = dict(line.split(None, 1) for line in either("get", name).out.decode().splitlines())
    assert (shown["topic"], shown["cap_records"], shown["dedupe_node"]) == (name, "2", "no")


def test_a_queue_of_unique_tags_is_created(either: Shell, name: str) -> None:
    assert either("create", name, "--type", "queue", "--unique-tags").out == f"{name} is created\n".encode()
    config = answered(either, "get", name)["config"]
    assert (config["type"], config["unique_tags"]) == ("queue", True)
    refused = either("create", name, "--no-unique-tags")
    assert (refused.code, "unique_tags" in refused.err) == (1, True)
    assert answered(either, "get", name)["config"] == config


def test_a_topic_is_deleted(either: Shell, name: str) -> None:
    either("append", name, stdin=b"1\n")
    either("routers", "put", f"{name}-r", name, f"{name}-d")
    refused = either("delete", name, "--if-empty")
    assert (refused.code, "holds 1 records" in refused.err) == (1, True)
    assert either("delete", name).out == f"{name} is deleted, with the routers {name}-r\n".encode()
    assert either("delete", name).out == f"topic '{name}' does not exist\n".encode()
    assert answered(either, "delete", f"{name}-d", "--yes")["deleted"] is True


@pytest.mark.parametrize(
    ("command", "typed", "left"),
    [
        (("delete", "a"), b"n\n", 2),
        (("delete", "a"), b"\x04", 2),
        (("delete", "a"), b"y\n", 0),
        (("trim", "a", "--seq", "1"), b"n\n", 2),
        (("trim", "a", "--seq", "1"), b"y\n", 1),
        (("trim", "a", "--seq", "1", "--yes"), b"", 1),
    ],
)
def test_somebody_at_a_terminal_is_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], typed: bytes, left: int
) -> None:
    shell("append", "a", stdin=b"1\n2\n")
    terminal, ours = pty.openpty()
    os.write(terminal, typed)
    with os.fdopen(ours) as source:
        monkeypatch.setattr(sys, "stdin", source)
        if left == 2:
            with pytest.raises(SystemExit, match="nothing was changed"):
                main([*command], "topics", HERE)
        else:
            main([*command], "topics", HERE)
    os.close(terminal)
    assert sum(each["count"] for each in listed(Local(), "/v0/topics", "topics")) == left


def test_records_are_trimmed(either: Shell, name: str) -> None:
    lines = b"".join(b'{"id": %d, "t": "%d:%d"}\n' % (n, n % 2, n) for n in range(1, 7))
    either("append", name, "--tag-field", "t", stdin=lines)
    assert either("trim", name, "--before-seq", 3).out == f"2 records of {name} are deleted, 4 are left\n".encode()
    assert answered(either, "trim", name, "--match", "1:3")["deleted"] == 1
    done = answered(either, "trim", name, "--before-seq", 6, "--match", '["tag", "Glob", "1:*"]')
    assert (done["deleted"], done["count"]) == (1, 2)
    assert [json.loads(line)["id"] for line in either("export", name).out.splitlines()] == [4, 6]
    assert answered(either, "trim", name, "--seq", 4, "--seq", 5, "--yes")["deleted"] == 1
    assert [json.loads(line)["id"] for line in either("export", name).out.splitlines()] == [6]


def test_routers(either: Shell, name: str) -> None:
    either("append", name, stdin=b"1\n2\n")
    made = either(
        "routers", "put", f"{name}>r", name, f"{name}-d", "--from", 1, "--filter", '["tag","Glob","x*"]', "--paused"
    )
    assert (made.code, made.out) == (0, f"{name}>r is created\n".encode())
    found = answered(either, "routers", "get", f"{name}>r")
    assert (found["source"], found["dest"], found["cursor"], found["paused"]) == (name, f"{name}-d", 1, True)
    assert found["filter"] == ["tag", "Glob", "x*"]
    options = [
        "--filter",
        "null",
        "--no-paused",
        "--no-preserve-node",
        "--no-preserve-tag",
        "--allow-cycle",
        "--allow-fan-in",
    ]
    changed = answered(
        either, "routers", "put", *options, "--guarantee", "exactly_once", f"{name}>r", name, f"{name}-d"
    )
    wanted = {"filter": None, "paused": False, "preserve_node": False, "preserve_tag": False, "allow_cycle": True}
    assert changed.items() >= {**wanted, "allow_fan_in": True, "guarantee": "exactly_once"}.items()
    assert answered(either, "routers", "list", name)["router"] == f"{name}>r"
    assert answered(either, "routers", "list", "--dest", f"{name}-d")["router"] == f"{name}>r"
    assert answered(either, "routers", "list", "--dest", name) == []
    table = [line.split() for line in either("routers", "list", "--source", name).out.decode().splitlines()]
    assert table[0] == ["LAG", "FORWARDED", "STATE", "SOURCE", "DEST", "NAME"]
    assert table[1][2:] == ["running", name, f"{name}-d", f"{name}>r"]
    assert either("routers", "delete", f"{name}>r").out == f"{name}>r is deleted\n".encode()
    assert either("routers", "delete", f"{name}>r").out == f"router '{name}>r' does not exist\n".encode()


def test_no_groups(either: Shell, name: str) -> None:
    either("append", name, stdin=b"1\n2\n")
    assert either("groups", "list", name).out.split() == [b"MEMBERS", b"SHARES", b"LAG", b"UNREAD-MS", b"NAME"]
    assert either("groups", "delete", name, "team").out == b"group 'team' does not exist\n"


def test_groups(elsewhere: Shell, server: Instance, name: str) -> None:
    elsewhere("append", name, stdin=b"1\n2\n")
    session_of(server.port, name, "team")
    (found,) = [line.split() for line in elsewhere("groups", "list", name).out.decode().splitlines()[1:]]
    assert (found[:2], found[4]) == (["1", "4"], "team")
    shares = [line.split() for line in elsewhere("groups", "get", name, "team").out.decode().splitlines()[1:]]
    assert [(each[0], each[5]) for each in shares] == [(str(share), "team") for share in range(4)]
    assert [each["share"] for each in answered(elsewhere, "groups", "get", name, "team")["shares"]] == [0, 1, 2, 3]
    assert elsewhere("groups", "delete", name, "team").out == b"team is deleted\n"


def test_cursors(either: Shell, name: str) -> None:
    either("append", name, stdin=b"1\n2\n3\n")
    assert either("cursors", "put", name, "c", "--seq", 1).out == f"c is at 1 of {name}, 2 behind\n".encode()
    refused = either("cursors", "put", name, "c", "--seq", 3, "--expected-seq", 2)
    assert (refused.code, refused.out) == (1, b"")
    moved = answered(either, "cursors", "put", name, "c", "--at", "head", "--expected-seq", 1)
    assert (moved["seq"], moved["created"]) == (3, False)
    assert answered(either, "cursors", "put", name, "d", "--from-ts", 0)["seq"] == 0
    assert answered(either, "cursors", "get", name, "d")["lag"] == 3
    assert [each["cursor"] for each in answered(either, "cursors", "list", name)] == ["c", "d"]
    table = [line.split() for line in either("cursors", "list", name).out.decode().splitlines()]
    assert table == [["SEQ", "LAG", "UNREAD-MS", "KIND", "NAME"], ["3", "0", "-", "named", "c"], table[2]]
    assert either("cursors", "delete", name, "c").out == b"c is deleted\n"
    assert either("cursors", "delete", name, "c").out == b"cursor 'c' does not exist\n"


def test_schedules(either: Shell, name: str) -> None:
    either("create", name, "--type", "queue")
    repeat = ("schedules", "put", name, "nightly", "--cron", "0 3 * * *")
    data = b'{"a": 1.50}'  # its bytes stay
    done = either(
        *repeat, "--timezone", "Europe/Berlin", "--not-before", "2099-07-01T12:00+02:00", "--data", data.decode()
    )
    assert done.out == b"nightly is created: the next job comes at 2099-07-02 01:00:00 UTC\n"
    assert (
        either("schedules", "put", name, "once", "--not-before", 4_000_000_000_000, "--data", "1", "--json").code == 0
    )
    shown = either("schedules", "get", name, "nightly")
    assert b"next_ts                2099-07-02 01:00:00 UTC\n" in shown.out
    assert shown.out.endswith(b"data                   %b\n" % data)
    assert data in either("schedules", "get", name, "nightly", "--json").out
    table = either("schedules", "list", name).out.decode().splitlines()
    assert table[0].split() == ["JOBS", "NEXT-UTC", "LAST-UTC", "ERROR", "CRON", "TIMEZONE", "NAME"]
    assert " ".join(table[1].split()) == "0 2099-07-02 01:00:00 - no 0 3 * * * Europe/Berlin nightly"
    assert [each["schedule"] for each in answered(either, "schedules", "list", name)] == ["nightly", "once"]
    changed = either(*repeat, "--data", "2", "--tag", "t", "--node", "n", "--meta", '{"k": 1}')
    assert changed.out.startswith(b"nightly is replaced: the next job comes at ")
    found = answered(either, "schedules", "get", name, "nightly")
    assert (found["data"], found["tag"], found["node"], found["meta"]) == (2, "t", "n", {"k": 1})
    past = either("schedules", "put", name, "past", "--not-before", 0, "--data", "1")
    assert past.out == b"past is created: the next job comes now\n"
    assert either("schedules", "delete", name, "nightly").out == b"nightly is deleted\n"
    assert either("schedules", "delete", name, "nightly").out == b"schedule 'nightly' does not exist\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("get", "NAME"), 1, "does not exist"),
        (("get", ".."), 1, "invalid name '..'"),
        (("cursors", "delete", "NAME", ".."), 1, "invalid name '..'"),
        (("get", "a/b"), 1, "topics: "),
        (("trim", "NAME"), 2, "send --seq, --before-seq or --match"),
        (("trim", "NAME", "--seq", "1", "--match", "a"), 2, "send --seq, --before-seq or --match"),
        (("trim", "NAME", "--match", '["tag"'), 2, "invalid JSON in --match"),
        (("cursors", "put", "NAME", "c"), 2, "send exactly one of --seq, --from-ts and --at"),
        (("cursors", "put", "NAME", "c", "--seq", "1", "--at", "head"), 2, "send exactly one of"),
        (("routers", "get", "NAME"), 1, "does not exist"),
        (("routers", "put", "NAME", "a"), 2, "Missing argument 'DEST'"),
        (("schedules", "list", "NAME"), 1, "does not exist"),
        (("schedules", "put", "NAME", "s", "--cron", "0 3 * * *"), 2, "Missing option '--data'"),
        (("schedules", "put", "NAME", "s", "--data", "1"), 2, "send --not-before for one job"),
        (("schedules", "put", "NAME", "s", "--data", "hello"), 2, "A text needs double quotes"),
        (("schedules", "put", "NAME", "s", "--data", ""), 2, "expected JSON"),
        (("schedules", "put", "NAME", "s", "--not-before", "2027-01-31T08:00"), 2, "with its offset from UTC"),
        (("schedules", "put", "NAME", "s", "--not-before", "9" * 5000), 2, "with its offset from UTC"),
        (("schedules", "put", "NAME", "s", "--not-before", "tomorrow"), 2, "with its offset from UTC"),
        (("schedules", "put", "NAME", "s", "--cron", "@daily", "--data", "1"), 1, "expected five fields"),
        (("create", "NAME", "--durability", "none"), 2, "'fsync', 'disk', 'memory', 'ephemeral'"),
        (("create", "NAME", "--ttl", "1"), 2, "--ttl-ms"),
        (("create", "NAME", "--ttl-ms", "-1"), 2, "--ttl-ms"),
        (("crate", "NAME"), 2, "No such command 'crate'"),
        (("ls", "-q", "--json"), 2, "exclude each other"),
        ((), 2, "Commands:"),
    ],
)
def test_it_refuses(either: Shell, name: str, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = either(*(name if each == "NAME" else each for each in arguments))
    assert (done.code, done.out) == (code, b"")
    assert told in done.err
    assert "Traceback" not in done.err
