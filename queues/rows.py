"""Records that PostgreSQL returned, as rows of another append: dead letters, redriven jobs and the jobs of schedules."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from contract.appending import NO_META
from store.codec import Rows as Found
from topics.append.records import Rows

TAG = 2  # the place of the tag in a row (key, node, tag, meta, data, …)


def as_rows(found: Found, metas: Sequence[msgspec.Raw]) -> Rows:
    """Returns rows (key, node, tag, meta, data, …) as records, with these metas. The data stays as it was sent."""
    data = [msgspec.Raw(row[4].encode()) for row in found]
    sizes = [len(each) + (0 if meta is NO_META else len(meta)) for each, meta in zip(data, metas, strict=True)]
    return Rows(
        data, [row[TAG] for row in found], [row[1] for row in found], metas=list(metas), sizes=sizes, bytes=sum(sizes)
    )


def first_of_tags(found: Found) -> tuple[Found, Found]:
    """Returns the first row of each tag and all rows without a tag, and the other rows."""
    chosen: Found = []
    left: Found = []
    tags: set[str] = set()
    for row in found:
        tag = row[TAG]
        (left if tag in tags else chosen).append(row)
        if tag is not None:
            tags.add(tag)
    return chosen, left
