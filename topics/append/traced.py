"""The trace of an append, in the `meta` of its records (TOPICS_TRACE_RECORDS), for readers, routers and callbacks to continue.

A repeated append can be in another trace. So the digest of an append (records.py) leaves this part of `meta` out.
"""

from __future__ import annotations

import re

import msgspec
from django.conf import settings

from base.tracing import TRACEPARENT
from contract.appending import NO_META
from store.database import prepared
from topics.append.records import MAX_RECORD_BYTES, Rows

# The text of `meta` is searched, because a record can have a `meta` that PostgreSQL cannot parse.
TRACES = """
SELECT DISTINCT substring(meta FROM '"traceparent": ?"([0-9a-f-]{55})')
  FROM topic_shown(%s, ARRAY(SELECT generate_series(%s::bigint, %s)))
"""
EMPTY = re.compile(rb"\{\s*\}")


def traced(rows: Rows, header: bytes | None) -> Rows:
    """Returns the records with this traceparent, if the trace is sampled.

    A record stays as it is if its `meta` names a trace, is an empty object, or would exceed a limit.
    """
    if header is None or not settings.TOPICS_TRACE_RECORDS:
        return rows
    found = TRACEPARENT.fullmatch(header.decode("latin-1"))
    if found is None or int(found[3], 16) & 1 == 0:
        return rows
    stamp = b'{"traceparent":"%b"' % header
    metas, sizes = list(rows.metas), list(rows.sizes)
    for place, (meta, size) in enumerate(zip(rows.metas, rows.sizes, strict=True)):
        new = stamped(bytes(meta), stamp)
        more = len(new) - (0 if meta == NO_META else len(meta))
        if new != meta and size + more <= MAX_RECORD_BYTES:
            metas[place], sizes[place] = msgspec.Raw(new), size + more
    return rows._replace(metas=metas, sizes=sizes, bytes=sum(sizes))


def traces_of(topic_id: int, first_seq: int, last_seq: int) -> list[str]:
    """Returns the traceparents of the topic's records with these seqs, each once."""
    return [found for (found,) in prepared(TRACES, (topic_id, first_seq, last_seq)) if found]


def stamped(meta: bytes, stamp: bytes) -> bytes:
    if meta == b"null":
        return stamp + b"}"
    has_room = (
        len(meta) + len(stamp) <= settings.TOPICS_MAX_META_BYTES and meta.count(b":") < settings.TOPICS_MAX_META_KEYS
    )
    if not has_room or EMPTY.fullmatch(meta) or b'"traceparent"' in meta:
        return meta
    return stamp + b"," + meta[1:]
