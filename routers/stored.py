"""Queries of stored routers: one by name, a page of routers, and all routers of a topic (docs/routers.md)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from base.errors import Forbidden, RouterNotFound
from base.names import begins, check_router_name
from routers.models import Router
from store.script import Script, Statement
from wire.access.keys import Key

# A router with the names of its ends and its position. Uses the unique index on name. The lag comes from lag.py.
COLUMNS = """
SELECT r.id, r.name, r.source_id, source.name, r.dest_id, dest.name, r.cursor_id, r.preserve_node, r.preserve_tag,
       r.filter_op, r.filter_tag, r.allow_cycle, r.allow_fan_in, r.cyclic, r.guarantee, r.state, r.last_error, c.seq,
       c.forwarded_total
  FROM routers_router r
  JOIN topics_topic source ON source.id = r.source_id
  JOIN topics_topic dest ON dest.id = r.dest_id
  JOIN topic_cursors c ON c.id = r.cursor_id
"""
FIND = f"{COLUMNS} WHERE r.name = %s"
# Uses the indexes on source and dest, one after the other.
NAMING = f"""{COLUMNS}
 WHERE r.id = ANY (ARRAY(SELECT id FROM routers_router WHERE source_id = %(id)s
                         UNION SELECT id FROM routers_router WHERE dest_id = %(id)s))
 ORDER BY r.name
"""
# By the indexes on the two ends. For OR, PostgreSQL could read all routers in the order of their names.
NAMES_NAMING = """
SELECT name FROM routers_router WHERE source_id = ANY (%(ids)s)
 UNION SELECT name FROM routers_router WHERE dest_id = ANY (%(ids)s) ORDER BY name
"""
PAGE = f"""{COLUMNS}
 WHERE r.name > %(after)s AND {begins("r.name")}
   AND (%(source)s::text IS NULL OR source.name = %(source)s) AND (%(dest)s::text IS NULL OR dest.name = %(dest)s)
   AND (%(prefixes)s::text[] IS NULL
        OR r.name ^@ ANY (%(prefixes)s) AND source.name ^@ ANY (%(prefixes)s) AND dest.name ^@ ANY (%(prefixes)s))
 ORDER BY r.name LIMIT %(limit)s
"""


def of_topic(statement: str, end: Literal["source", "dest"]) -> str:
    """Returns a statement of COLUMNS for the routers from or to one topic, %(source)s or %(dest)s.

    They are few. OFFSET 0 makes the planner find them first, by the index on source or dest. In order of name it would read all
    routers until a page is full.
    """
    routers = f"SELECT * FROM routers_router WHERE {end}_id = (SELECT id FROM topics_topic WHERE name = %({end})s)"
    return statement.replace("FROM routers_router r", f"FROM ({routers} OFFSET 0) r")


PAGE_OF_SOURCE, PAGE_OF_DEST = of_topic(PAGE, "source"), of_topic(PAGE, "dest")


class StoredRouter(NamedTuple):
    """A stored router."""

    id: int
    name: str
    source_id: int
    source: str
    dest_id: int
    dest: str
    cursor_id: int
    preserve_node: bool
    preserve_tag: bool
    filter_op: str | None
    filter_tag: str | None
    allow_cycle: bool
    allow_fan_in: bool
    cyclic: bool
    guarantee: str
    state: str
    last_error: str | None
    seq: int
    forwarded_total: int

    def config(self) -> dict[str, Any]:
        """Returns the config in the form of answers."""
        return {
            "router": self.name,
            "source": self.source,
            "dest": self.dest,
            "preserve_node": self.preserve_node,
            "preserve_tag": self.preserve_tag,
            "filter": self.filter(),
            "allow_cycle": self.allow_cycle,
            "guarantee": self.guarantee,
            "allow_fan_in": self.allow_fan_in,
            "paused": self.state == Router.State.PAUSED,
        }

    def filter(self) -> list[str] | None:
        if self.filter_op is None:
            return None
        return ["tag", self.filter_op, (self.filter_tag or "") + ("*" if self.filter_op == "Glob" else "")]

    def seen_by(self, key: Key) -> bool:
        """Returns whether the router's name and both ends are within the key's prefixes."""
        return all(key.allows(name) for name in (self.name, self.source, self.dest))

    def check_ends(self, key: Key) -> None:
        """Raises Forbidden if an end is outside the key's prefixes. The message does not name the topic."""
        if not self.seen_by(key):
            message = f"{self.name!r} has a topic outside this key's prefixes: use another key"
            raise Forbidden(message, router=self.name)


def find(name: str) -> Script[StoredRouter]:
    """Returns a router by name. Raises RouterNotFound or InvalidRequest."""
    check_router_name(name)
    rows = yield Statement(FIND, (name,))
    if not rows:
        raise absent(name)
    return StoredRouter(*rows[0])


def absent(name: str) -> RouterNotFound:
    return RouterNotFound(f"router {name!r} does not exist", router=name)


def page_of_routers(
    prefix: str, source: str | None, dest: str | None, after: str, limit: int, key: Key
) -> Script[list[StoredRouter]]:
    """Returns the next routers by name after `after`, at most `limit`. Includes only routers that the key may see."""
    wanted = {"prefix": prefix, "source": source, "dest": dest, "after": after, "limit": limit}
    page = PAGE_OF_SOURCE if source is not None else PAGE_OF_DEST if dest is not None else PAGE
    rows = yield Statement(page, {**wanted, "prefixes": list(key.prefixes) or None})
    return [StoredRouter(*row) for row in rows]


def named_by(topic_ids: list[int]) -> Script[list[str]]:
    """Returns the names of the routers that lead from or to one of these topics."""
    rows = yield Statement(NAMES_NAMING, {"ids": topic_ids})
    return [name for (name,) in rows]
