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
# The last seq that the floor of a topic hides, and the time before which its records have expired. NULL for a deleted topic.
FLOOR = "(SELECT floor_seq FROM topics_topichead WHERE topic_id = {id})"
OLDEST_TS = """
(SELECT CASE WHEN ttl_ms = 0 THEN 0 ELSE extract(epoch FROM statement_timestamp()) * 1000 - ttl_ms END::bigint
   FROM topics_topic WHERE id = {id})"""
# The own records of a topic from `first` to `last`: no look at spans. A deleted topic has no head, and so no records.
OWN_RECORDS = f"""
SELECT {{columns}} FROM topics_record
 WHERE topic_id = {{id}} AND seq BETWEEN {{first}} AND {{last}} AND NOT deleted AND seq > {FLOOR} AND ts >= {OLDEST_TS}
   AND {{conditions}}
 ORDER BY seq
"""
# Whether each record of a topic from `first` on is shown, if it is above the floor. NULL for a deleted topic.
IS_WHOLE = """
(SELECT h.holes_seq < {first} AND t.ttl_ms = 0
   FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.id = {id})"""
# The same records, for a topic that was whole from `first` on when the read was planned. All of them are in the partition of
# logged records. While the topic is whole, count and seqs need only the primary key: PostgreSQL evaluates IS_WHOLE once, because
# no row changes it. Otherwise it looks at each record a second time. A UNION ALL of two scans would take twice the time of the
# scan of a whole topic, because each record would pass two more nodes of the plan.
WHOLE_RECORDS = f"""
SELECT {{columns}} FROM topics_record record
 WHERE topic_id = {{id}} AND seq BETWEEN {{first}} AND {{last}} AND seq > {FLOOR} AND NOT volatile
   AND ({IS_WHOLE}
        OR EXISTS (SELECT FROM topics_record kept
                    WHERE kept.topic_id = {{id}} AND kept.seq = record.seq AND NOT kept.volatile AND NOT kept.deleted
                      AND kept.ts >= {OLDEST_TS}))
"""
# A topic at one moment, with the columns of pipeline.read.extent.Extent.
# `s.earliest_seq - 1` is the floor that readers see: expired records are below it.
EXTENT = """
SELECT t.id, t.name, h.head_seq, s.earliest_seq - 1, h.holes_seq, h.recreated_seq, t.ttl_ms > 0
  FROM topics_topic t
  JOIN topics_topichead h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0
                                       THEN (extract(epoch FROM statement_timestamp()) * 1000)::bigint - t.ttl_ms END) s
"""
