"""Which heads have background work left (sql/functions/unsettled_heads.sql): conditions on topics_topichead.

A step of the background that does one of these works settles the head if none of the others is left.

A topic with a TTL and records has a row in topics_expiry with a time that is not after its next expiry, or its head is unsettled.
The time can only be early: deletes and evictions make the oldest record younger, and a change of the TTL sets the time to 0.
Expiry deletes the row of an empty topic under the head's lock. The append that ends this state unsettles the head, which stays
unsettled until the row is there.
"""

from __future__ import annotations

from topics.heads import MOST_LEAD_MS

RESERVES = "reserved_seq > head_seq"  # seqs to release
RECLAIMS = "reclaimed_seq <> floor_seq"  # rows to reclaim
# Changes that topics_total does not have.
COUNTS = "(counted_seq <> head_seq OR counted_count <> count OR counted_bytes <> bytes)"
# A lead to end. An append reserves seqs until its ts is past, so this is left alone only by PostgreSQL's own clock: it was
# ahead, and went back after the topic had settled.
LEADS = f"last_ts > extract(epoch FROM clock_timestamp()) * 1000 + {MOST_LEAD_MS}"
# Records without a row in topics_expiry. An append to an empty topic with a TTL leaves this.
EXPIRES = """(count > 0 AND (SELECT ttl_ms > 0 FROM topics_topic WHERE id = topics_topichead.topic_id)
     AND (SELECT due_ts FROM topics_expiry expiry WHERE expiry.topic_id = topics_topichead.topic_id) IS NULL)"""
# Heads are found by index, even if the planner believes that the table is small.
BY_INDEX = "SELECT set_config('enable_seqscan', 'off', true)"
