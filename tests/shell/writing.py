"""Append without a process, for tests of what reads."""

import msgspec

from base.clock import now_ms
from tests.scripts import append
from topics.append.records import Append, NewRecord, check_rows


def put(name: str, *data: str, tag: str | None = None) -> None:
    """Append records with these JSON values."""
    wanted = Append([NewRecord(msgspec.Raw(each.encode()), tag) for each in data])
    append(name, wanted, check_rows(wanted), now_ms())
