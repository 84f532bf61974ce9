"""Roles and rights: each function refuses a login with another prefix, without a right, or after a revoke."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.api.clients import HttpClient
from tests.door.conftest import Session

# Each function with its scope.
CALLS = {
    "append": ("write", """SELECT * FROM topics.append(%s, '[{"data": 1}]')"""),
    "emit": ("write", "SELECT topics.emit(%s, '1')"),
    "emit_many": ("write", """SELECT topics.emit_many(%s, '[{"data": 1}]')"""),
    "read": ("read", "SELECT * FROM topics.read(%s)"),
    "read_cursor": ("read", "SELECT topics.read_cursor(%s, 'c')"),
    "lag": ("read", "SELECT * FROM topics.lag(%s, 'c')"),
    "commit_cursor": ("commit", "SELECT topics.commit_cursor(%s, 'c', 0)"),
    "claim": ("write", "SELECT * FROM topics.claim(%s, 'w')"),
    "ack": ("write", "SELECT * FROM topics.ack(%s, 'w', '{1}')"),
    "nack": ("write", "SELECT * FROM topics.nack(%s, 'w', '{1}')"),
}
GRANT = "INSERT INTO door_right VALUES (%s, %s, %s)"


def call(app: Session, function: str, topic: str) -> str | None:
    """None, or the code of the refusal."""
    try:
        app.execute(CALLS[function][1], [topic])
    except psycopg.Error as error:
        assert (error.sqlstate or "").startswith("TP"), error
        return error.diag.message_detail
    return None


# They make and drop triggers with the rights of the caller, who must own the table (tests/outbox/test_snapshots.py).
OF_OWNERS = {"capture", "uncapture"}


def test_every_function_is_tried_and_documented(owner: Session) -> None:
    rows = owner.execute(
        "SELECT proname, obj_description(oid, 'pg_proc'), has_function_privilege('public', oid, 'EXECUTE'), prosecdef,"
        "       proconfig FROM pg_proc WHERE pronamespace = 'topics'::regnamespace"
    ).fetchall()
    ours = {name: rest for name, *rest in rows}
    assert ours.keys() >= CALLS.keys()
    for name in CALLS:
        comment, is_public, is_definer, config = ours[name]
        assert comment, name
        assert not is_public, name
        assert is_definer, name
        assert config == (
            None if name == "emit" else ["search_path=public, pg_temp", "standard_conforming_strings=on"]
        ), name
    for name in OF_OWNERS:
        comment, is_public, is_definer, _ = ours[name]
        assert (bool(comment), is_public, is_definer) == (True, False, False), name
    for name in ours.keys() - CALLS.keys() - OF_OWNERS:
        assert ours[name][:2] == ["Internal.", False], name


@pytest.mark.parametrize("function", CALLS)
def test_a_login_without_a_role_may_nothing(login: Callable[..., Session], function: str, name: str) -> None:
    with pytest.raises(InsufficientPrivilege):
        login().execute(CALLS[function][1], [name])


@pytest.mark.parametrize("function", CALLS)
def test_rights_limit_a_login(app: Session, owner: Session, live: HttpClient, function: str, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    user, scope = app.info.user, CALLS[function][0]
    assert call(app, function, name) is None  # without a row, the role counts
    owner.execute(GRANT, [user, "shop.", ["read", "write", "commit"]])
    assert call(app, function, name) == "forbidden"  # another prefix
    assert call(app, function, "nobody.knows") == "forbidden"  # before it tells whether the topic exists
    owner.execute(GRANT, [user, name[:-1], sorted({"read", "write", "commit"} - {scope})])
    assert call(app, function, name) == "forbidden"  # without the scope
    owner.execute("UPDATE door_right SET scopes = scopes || %s WHERE login = %s", [[scope], user])
    assert call(app, function, name) is None
    owner.execute("UPDATE door_right SET scopes = '{}' WHERE login = %s", [user])
    assert call(app, function, name) == "forbidden"  # after a revoke
    owner.execute("DELETE FROM outbox_emitted WHERE topic = %s", [name])


@pytest.mark.parametrize("function", CALLS)
def test_each_role_has_its_functions_alone(login: Callable[..., Session], function: str, name: str) -> None:
    writes = CALLS[function][0] == "write"
    with pytest.raises(InsufficientPrivilege):
        login("topics_reader" if writes else "topics_writer").execute(CALLS[function][1], [name])


def test_an_emit_that_is_refused_writes_nothing(app: Session, owner: Session, name: str) -> None:
    """Also with a `meta` or an invalid name, which the function checks in another way."""
    owner.execute(GRANT, [app.info.user, f"{name}.", ["write"]])
    for topic, meta in ((name, None), (name, "{}"), ("a b", None), (None, None)):
        with pytest.raises(psycopg.Error) as error:
            app.execute("SELECT topics.emit(%s, '1', meta => %s)", [topic, meta])
        assert error.value.sqlstate == "TP004"
    app.execute("SELECT topics.emit(%s, '1', meta => '{}'), topics.emit(%s, '2')", [f"{name}.a", f"{name}.a"])
    emitted = "DELETE FROM outbox_emitted WHERE starts_with(topic, %s) RETURNING topic, data"
    assert owner.execute(emitted, [name]).fetchall() == [(f"{name}.a", 1), (f"{name}.a", 2)]


def test_a_claim_needs_both_roles(login: Callable[..., Session], live: HttpClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    writer = login("topics_writer")
    assert call(writer, "append", name) is None
    assert call(writer, "claim", name) == "forbidden"
    assert live.post(f"/v0/topics/{name}/claim", {"node": "w"}).json["count"] == 1


def test_a_claim_also_reads(app: Session, owner: Session, live: HttpClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    owner.execute(GRANT, [app.info.user, "", ["write"]])
    assert call(app, "claim", name) == "forbidden"
    assert call(app, "ack", name) is None


def test_rights_of_a_role_hold_for_its_members(login: Callable[..., Session], owner: Session, name: str) -> None:
    team = login("topics_writer")
    member = login(team.info.user)
    assert call(member, "append", name) is None
    owner.execute(GRANT, [team.info.user, "shop.", ["write"]])
    assert call(member, "append", name) == "forbidden"
    owner.execute(GRANT, [member.info.user, name, ["write"]])
    assert call(member, "append", name) is None
    assert call(team, "append", name) == "forbidden"


def test_set_role_changes_nothing(app: Session, owner: Session, name: str) -> None:
    owner.execute(GRANT, [app.info.user, "shop.", ["write"]])
    app.execute("SET ROLE topics_writer")
    assert call(app, "append", name) == "forbidden"


def test_no_login_reaches_past_the_functions(app: Session) -> None:
    app.execute("SET search_path = public")
    for statement in (
        "SELECT door_check('t', 'write')",
        "SELECT * FROM door_right",
        "DELETE FROM door_right",
        "SELECT * FROM public.topics_record",
        "SELECT * FROM topics.outbox",
        "INSERT INTO topics.emitted (size, topic, data) VALUES (1, 't', '1')",
        "SELECT topics.emit_checked('t', '1', NULL, NULL, NULL, NULL)",
        "SELECT topic_create('t', 1)",
    ):
        with pytest.raises((InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
            app.execute(statement)
