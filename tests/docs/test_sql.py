"""docs/sql.md: every statement runs as it is printed, by the login that the page makes, and so does every command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.door.shop import DRAIN, as_role, manage
from tests.instances import ROOT
from tests.migrations.databases import database

pytestmark = pytest.mark.deep


PAGE = (ROOT / "docs" / "sql.md").read_text()
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = re.findall(r"^\| `(1)` \| `(.+)` \|$", PAGE, re.MULTILINE)  # changes of a captured table
COMMANDS = re.findall(r"^    (.+)$", PAGE, re.MULTILINE)


@pytest.fixture
def empty() -> Iterator[str]:
    with database() as url:
        yield url
        with psycopg.connect(url, autocommit=True) as admin:
            for role in ("shop", "shop_topics"):
                admin.execute(f"GRANT {role} TO CURRENT_USER")
                admin.execute(f"DROP OWNED BY {role} CASCADE")
                admin.execute(f"DROP ROLE {role}")


def test_every_statement_and_command_runs_as_printed(empty: str) -> None:
    prepare, *commands = COMMANDS
    printed = re.search(r"postgresql://shop_topics:(\S+)@db/shop\?(\S+)' manage.py prepare$", prepare)
    assert printed
    url, shop = as_role(empty, "shop_topics", *printed.groups()), as_role(empty, "shop", "a-secret")
    with psycopg.connect(empty, autocommit=True) as admin:
        known = {name for (name,) in admin.execute("SELECT rolname FROM pg_roles")}  # roles belong to the whole server
        first = re.sub(r"CREATE ROLE (\w+) NOLOGIN;\n", lambda found: "" if found[1] in known else found[0], BLOCKS[0])
        execute(admin, first.replace("CREATE SCHEMA", "GRANT shop_topics TO CURRENT_USER;\nCREATE SCHEMA"))
        succeed(url, "prepare")
        succeed(url, *["topics", "create", "shop.mails", "--type", "queue"])
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("""SELECT topics.append('shop.mails', '[{"data": {"to": "ada"}}]')""")
        answers = []
        for block in BLOCKS[1:]:
            if block.startswith("CREATE SCHEMA"):
                admin.execute("GRANT shop TO CURRENT_USER")  # so that it can make a schema for this login
            if block.startswith("SELECT tag"):
                succeed(url, "shell", "-c", DRAIN)  # the relay would have moved the changes
            if block.startswith(("CREATE", "GRANT")):
                execute(admin, block)
            else:
                with psycopg.connect(shop, autocommit=True) as login:
                    answers.append(execute(login, block))
    appended, (record, *others), committed, lag, (job, *_), settled, _, changes = answers
    assert (appended, record[:2], others) == ([(1, 1)], (1, "order:7"), [])
    assert lag == [(0, None)]
    assert (committed, job[0], job[2], settled) == ([("",), (1,)], 1, {"to": "ada"}, [(1, True)])
    assert [(tag, data) for tag, data in changes] == [(tag, json.loads(data)) for tag, data in PRINTED]
    for each in commands:
        succeed(url, *each.split())
    with psycopg.connect(shop, autocommit=True) as login:
        login.execute("""SELECT topics.append('shop.orders', '[{"data": 8}]')""")
        with pytest.raises(psycopg.Error, match="lacks the scope 'read'"):
            login.execute("SELECT topics.read('shop.orders')")


def execute(session: psycopg.Connection[Any], block: str) -> list[Any]:
    """The rows of a block's statements."""
    answers = [session.execute(each.encode()) for each in block.split(";\n") if each.strip()]
    return [row for answer in answers if answer.description for row in answer.fetchall()]


def succeed(url: str, *arguments: str) -> None:
    done = manage(url, *arguments)
    assert done.returncode == 0, done.stderr
