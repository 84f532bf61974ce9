"""Statements on heads and topics, for the log and for other packages: look-ups, locks, and new versions.

The order of the locks is in docs/concurrency.md: topics, cursors, heads. Statements of other packages that only read, and join
their own tables, use the views `topic_heads` and `topic_cursors` (sql/views/).
"""

MOST_LEAD_MS = 10_000  # a head whose last ts is further in the future was written with a clock that was ahead

HEAD = "SELECT head_seq FROM topics_topichead WHERE topic_id = %s LIMIT 1"
HEADS = "SELECT topic_id, head_seq FROM topics_topichead WHERE topic_id = ANY (%s)"
NAMED_HEAD = (
    "SELECT t.id, h.head_seq FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id WHERE t.name = %s"
)

# Locks the topic: no other transaction can delete the topic or change its config. A new cursor, which refers to the row, does not
# have to wait.
LOCK_TOPIC = "SELECT id, unique_tags FROM topics_topic WHERE name = %s FOR NO KEY UPDATE"
LOCK_TOPICS = "SELECT FROM topics_topic WHERE name = ANY (%s) ORDER BY id FOR NO KEY UPDATE"
# Locks the topic against a delete alone.
KEEP_TOPIC = "SELECT FROM topics_topic WHERE id = %s FOR KEY SHARE"

LOCK_HEAD = "SELECT FROM topics_topichead WHERE topic_id = %s LIMIT 1 FOR UPDATE"
# Returns no row if the topic was reconfigured.
LOCK_CURRENT_HEAD = (
    "SELECT head_seq, last_ts FROM topics_topichead WHERE topic_id = %s AND version = %s LIMIT 1 FOR UPDATE"
)
# Locks heads in the order of their ids, like an append. This is a separate statement, before a statement that reads rows of the
# heads. So the later statement sees everything that earlier holders of the locks have written.
LOCK_HEADS = """
SELECT FROM (SELECT DISTINCT id FROM unnest(%s::bigint[]) id ORDER BY id) wanted
 CROSS JOIN LATERAL (SELECT FROM topics_topichead WHERE topic_id = id LIMIT 1 FOR UPDATE) head
"""
# Does the same and returns the versions. With SKIP LOCKED it leaves out the heads that other transactions hold.
LOCK_VERSIONS = """
SELECT head.* FROM (SELECT DISTINCT id FROM unnest(%s::bigint[]) id ORDER BY id) wanted
 CROSS JOIN LATERAL (SELECT topic_id, version FROM topics_topichead WHERE topic_id = id LIMIT 1 FOR UPDATE) head
"""
LOCK_FREE_VERSIONS = LOCK_VERSIONS.replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED")

# Locks the heads, too. After the commit, a statement with an old version finds no row, and its caller looks the topic up again
# (cache.py).
OUTDATE = "UPDATE topics_topichead SET version = version + 1 WHERE topic_id = ANY (%s)"
OUTDATE_NAMED = (
    "UPDATE topics_topichead SET version = version + 1 FROM topics_topic t WHERE t.id = topic_id AND t.name = %s"
)

# Whether the topic has holes and more than a step of expired records. Without a lock, so the figures can be old.
BACKLOG = """
SELECT FROM topics_topichead
 WHERE topic_id = %(id)s AND holes_seq - floor_seq > topic_step()
   AND topic_seq_at(topic_id, floor_seq, floor_seq + topic_step(), %(expired_ts)s) > floor_seq + topic_step()
 LIMIT 1
"""

# The number of seqs that were lost before a reader saw them: spans without a home. The caller adds a condition for the topic.
LOST = "SELECT coalesce(sum(last_seq - first_seq + 1), 0)::bigint FROM topics_span WHERE home_id IS NULL"

# Stores facts about routers on the heads of their topics. `facts` is a query of the routers.
SAVE_ROUTER_FACTS = """
UPDATE topics_topichead head SET routed = facts.routed, derived = facts.derived, keeps_evidence = facts.keeps_evidence
  FROM ({facts}) facts (topic_id, routed, derived, keeps_evidence)
 WHERE head.topic_id = facts.topic_id
"""

# The first seq minus 1 and the last seq of a topic for a reader right now, and the last seq before a time.
ENDS = """
SELECT greatest(floor_seq, CASE WHEN ttl_ms > 0 THEN topic_seq_at(topic_id, floor_seq, head_seq, %(now)s - ttl_ms) - 1 END),
       head_seq, topic_seq_at(topic_id, floor_seq, head_seq, %(from_ts)s) - 1
  FROM topics_topichead JOIN topics_topic ON id = topic_id
 WHERE topic_id = %(topic_id)s
"""
# Raises an error if a topic has no head, or a record above its head. The end of a restore has no search_path
# (topics_project/operations/backups.py).
HEADS_FIT = """
DO $$ BEGIN IF EXISTS (
    SELECT FROM {schema}.topics_topic t LEFT JOIN {schema}.topics_topichead h ON h.topic_id = t.id
     WHERE h.topic_id IS NULL OR h.head_seq < (SELECT max(seq) FROM {schema}.topics_record r WHERE r.topic_id = t.id)
    ) THEN RAISE EXCEPTION 'a topic has a record above its head'; END IF; END $$;
"""
