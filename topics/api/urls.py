"""The endpoints of /v0/topics, and those of the server itself."""

from topics.api import appends, cursors, health, records, state, topics

endpoints = (
    topics.list_topics,
    topics.put,
    topics.get,
    topics.delete,
    records.append_records,
    appends.last_append,
    records.read_by_diff,
    records.read_by_get,
    records.one_record,
    records.delete,
    cursors.list_cursors,
    cursors.put,
    cursors.get,
    cursors.delete,
    state.get,
    state.put,
    health.health,
    health.ready,
    health.tell_metrics,
)
