"""Statements that read a range of seqs, for jobs that divide a topic into parts.

Spark's Python workers import this file, so it imports no Django.
"""

# The records of a `span` inside of a `part` (first, last). The query lists both aliases before. Reads home rows by their key, and
# OFFSET 0 keeps this plan.
SPAN_RECORDS = """
       SELECT * FROM topics_record
        WHERE topic_id = span.home_id
          AND seq >= span.home_first_seq + greatest(part.first - span.first_seq, 0)
          AND seq <= span.home_last_seq - greatest(span.last_seq - part.last, 0)
       OFFSET 0"""
# The own records of a topic from `first` to `last`: no look at spans. A deleted topic has no head, and so no records.
OWN_RECORDS = """
SELECT {columns} FROM topics_record
 WHERE topic_id = {id} AND seq BETWEEN {first} AND {last} AND NOT deleted
   AND seq > (SELECT floor_seq FROM topics_topichead WHERE topic_id = {id})
   AND ts >= (SELECT CASE WHEN ttl_ms = 0 THEN 0 ELSE extract(epoch FROM statement_timestamp()) * 1000 - ttl_ms END::bigint
                FROM topics_topic WHERE id = {id})
   AND {conditions}
 ORDER BY seq
"""
# Whether a topic shows a record of its own for each seq from `start` on. NULL for a deleted topic.
IS_WHOLE = """
(SELECT h.holes_seq < {start} AND h.floor_seq < {start} AND t.ttl_ms = 0
   FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.id = {id})"""
# The own records of a `part` (first, last). If each seq from `start` on still has its record, the first branch returns them. Then
# count and seqs need only the primary key. PostgreSQL evaluates the conditions on `start` once, because no row changes them, and
# runs only one branch.
PART_RECORDS = f"""
SELECT * FROM topics_record
 WHERE topic_id = {{id}} AND seq BETWEEN part.first AND part.last AND NOT volatile AND {IS_WHOLE}
 UNION ALL
({OWN_RECORDS.format(columns="*", id="{id}", first="part.first", last="part.last", conditions=f"NOT {IS_WHOLE}")})
"""
# The extent of a topic at one moment: id, name, head, floor, last seq that may have a hole, and last head of deleted topics.
# `s.earliest_seq - 1` is the floor that readers see: expired records are below it.
EXTENT = """
SELECT t.id, t.name, h.head_seq, s.earliest_seq - 1, h.holes_seq, h.recreated_seq
  FROM topics_topic t
  JOIN topics_topichead h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0
                                       THEN (extract(epoch FROM statement_timestamp()) * 1000)::bigint - t.ttl_ms END) s
"""
