"""Statements on the cursors that belong to routers, subscriptions and jobs. named.py has the named cursors of clients.

The order of the locks is in docs/concurrency.md: topics, cursors, heads.
"""

INTO = "INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)"
INSERT = f"""
{INTO} VALUES (%(topic_id)s, %(kind)s, %(name)s, %(seq)s, 0, %(now)s)
RETURNING id
"""
# Each position is the head of the topic with this name.
INSERT_AT_HEAD = f"""
{INTO}
SELECT t.id, %(kind)s, %(name)s, h.head_seq, 0, %(now)s
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id WHERE t.name = ANY (%(topics)s)
 ORDER BY t.id
ON CONFLICT (topic_id, name, kind) DO NOTHING
"""
# Each position is before the first record of the topic with this id.
INSERT_AT_BEGIN = f"""
{INTO}
SELECT topic_id, %(kind)s, %(name)s, recreated_seq, 0, %(now)s FROM topics_topichead WHERE topic_id = ANY (%(topic_ids)s)
 ORDER BY topic_id
ON CONFLICT (topic_id, name, kind) DO NOTHING
"""
LOCK = "SELECT FROM topics_cursor WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
DELETE = "DELETE FROM topics_cursor WHERE id = ANY (%s)"
SET = "UPDATE topics_cursor SET seq = %(seq)s, updated_ts = %(now)s WHERE id = %(cursor_id)s"
# Returns no row if the cursor is not at `seq`.
COMMIT = """
UPDATE topics_cursor SET seq = %(upto)s, updated_ts = %(now)s
 WHERE topic_id = %(topic_id)s AND name = %(name)s AND kind = %(kind)s AND seq = %(seq)s
RETURNING id
"""
# The only cursor of a kind in the topic with this name: the position of a subscription in its queue.
LOCATE_ONLY = """
SELECT c.seq, h.floor_seq, h.head_seq
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
  JOIN topics_cursor c ON c.topic_id = t.id AND c.kind = %(kind)s
 WHERE t.name = %(topic)s
"""
LOCK_ONLY = f"{LOCATE_ONLY} FOR UPDATE OF c"
# The records after a seq, up to the position of the only cursor of a kind: where they begin, their number, and the position.
BEHIND_ONLY = """
SELECT greatest(%(after)s, h.floor_seq), coalesce(extent.records, 0), c.seq
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
  JOIN topics_cursor c ON c.topic_id = t.id AND c.kind = %(kind)s
  LEFT JOIN LATERAL topic_extent(t.id, greatest(%(after)s, h.floor_seq) + 1, c.seq, h.holes_seq) extent ON true
 WHERE t.name = %(topic)s
"""
SET_ONLY = """
UPDATE topics_cursor c SET seq = %(seq)s, updated_ts = %(now)s FROM topics_topic t
 WHERE t.name = %(topic)s AND c.topic_id = t.id AND c.kind = %(kind)s
"""
# The position of each cursor, the floor and head of its topic, and the first waiting record, own or forwarded.
NEXT = """
SELECT c.seq, head.floor_seq, head.head_seq,
       (SELECT min(seq) FROM (
            (SELECT seq FROM topics_record
              WHERE topic_id = c.topic_id AND seq > greatest(c.seq, head.floor_seq) AND NOT deleted ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT greatest(first_seq, c.seq + 1, head.floor_seq + 1) FROM topics_span
              WHERE topic_id = c.topic_id AND last_seq > greatest(c.seq, head.floor_seq) AND shown
              ORDER BY last_seq LIMIT 1)) next) AS next_seq
  FROM topics_cursor c JOIN topics_topichead head ON head.topic_id = c.topic_id
"""
