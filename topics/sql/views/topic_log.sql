-- Shows every record of every topic, own and forwarded, as a reader gets it (docs/wire.md), with its home. psql and Spark use
-- it. A range of one topic's own records is a range of the primary key. Forwarded records are read span by span. For a range of
-- seqs in a topic with many spans, use topic_log_range.
CREATE OR REPLACE VIEW topic_log AS
SELECT t.name AS topic, r.seq, r.ts, r.node, r.tag, r.meta, r.data,
       t.name AS home_topic, t.id AS home_topic_id, r.seq AS home_seq, '{}'::text[] AS path
  FROM topics_topic t
  JOIN topics_topichead h ON h.topic_id = t.id
  JOIN topics_record r ON r.topic_id = t.id
 WHERE r.seq > h.floor_seq AND NOT r.deleted
   AND (t.ttl_ms = 0 OR r.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
UNION ALL
SELECT t.name, record.seq, s.ts, record.node, record.tag, record.meta::json, r.data,
       coalesce(home.name, gone.name), s.home_id, r.seq, s.path
  FROM topics_topic t
  JOIN topics_topichead h ON h.topic_id = t.id
  JOIN topics_span s ON s.topic_id = t.id AND s.last_seq > h.floor_seq AND s.shown
  JOIN topics_record r ON r.topic_id = s.home_id AND r.seq >= s.home_first_seq + greatest(h.floor_seq + 1 - s.first_seq, 0)
                      AND r.seq <= s.home_last_seq
 CROSS JOIN LATERAL span_record(s, r.seq, r.node, r.tag, r.meta) record
  LEFT JOIN topics_topic home ON home.id = s.home_id
  LEFT JOIN topics_deletedtopic gone ON gone.id = s.home_id
 WHERE t.ttl_ms = 0 OR s.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms;
