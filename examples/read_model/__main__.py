"""`make read-model-demo`: a table of balances, made of the bookings in a topic. Run it again: it continues where it was.

The table and the position are written in one transaction. So each booking counts once, whenever the program is killed.
"""

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from topics_client import RecordsLost

from examples.demo import ROOT, say
from examples.serving import server

BOOKINGS, ACCOUNTS = "bookings", ("ada", "bob", "eve")
SCHEMA = """
CREATE TABLE IF NOT EXISTS balance (account TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS position (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL);
INSERT OR IGNORE INTO position VALUES (1, 0);
"""
BOOK = """
INSERT INTO balance VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents
"""


def main() -> None:
    with server("read-model", 4350) as here, closing(model(here.url)) as table:
        bookings = here.topics.topic(BOOKINGS)
        with bookings.batch() as batch:
            for _ in range(100):
                account = random.choice(ACCOUNTS)
                batch.append({"account": account, "cents": random.randint(-500, 1000)}, tag=account)
        (position,) = table.execute("SELECT seq FROM position").fetchone()
        counted = 0
        for window in bookings.pages(start=position, wait=False):
            if window.tombstone is not None:
                raise RecordsLost(window.tombstone)  # not here: the topic has neither a cap nor a TTL
            with table:
                rows = [(each.data["account"], each.data["cents"]) for each in window.records]
                table.executemany(BOOK, rows)
                table.execute("UPDATE position SET seq = ?", (window.next_from_seq,))
            counted += len(rows)
        say(f"{counted} bookings after seq {position}")
        for account, cents in table.execute("SELECT * FROM balance ORDER BY account"):
            say(f"{account} {cents / 100:.2f}")


def model(url: str) -> sqlite3.Connection:
    """Returns the database of the read model. A position belongs to one server, so each server has a database of its own."""
    folder = Path(os.environ.get("TOPICS_DATA") or ROOT / ".demo" / "read-model")
    folder.mkdir(parents=True, exist_ok=True)
    found = sqlite3.connect(folder / f"balances-{urlsplit(url).netloc.replace(':', '-')}.sqlite")
    found.executescript(SCHEMA)
    return found


if __name__ == "__main__":
    main()
