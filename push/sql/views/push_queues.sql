-- Shows each subscriber's queue, read from the log and never from counters: the records above its cursor, and the records of
-- its topics that it does not have yet. `oldest_ts` is the time of the first of these. Each subscriber has a row, with zeros if
-- an operator deleted its queue. With LIMIT 1, the planner looks up each row.
CREATE OR REPLACE VIEW push_queues AS
SELECT s.client_id, t.id AS queue_id, place.seq AS cursor_seq, h.head_seq,
       coalesce(extent.records, 0) + coalesce(coming.records, 0) AS records, coalesce(extent.bytes, 0) AS bytes,
       least(topic_next_ts(t.id, place.seq), coming.ts) AS oldest_ts
  FROM push_subscriber s
  LEFT JOIN LATERAL (SELECT id FROM topics_topic WHERE name = s.queue LIMIT 1) t ON true
  LEFT JOIN LATERAL (
       SELECT head_seq, floor_seq, holes_seq FROM topics_topichead WHERE topic_id = t.id LIMIT 1) h ON true
  LEFT JOIN LATERAL (
       SELECT greatest(cursor.seq, h.floor_seq) AS seq FROM topics_cursor cursor
        WHERE cursor.topic_id = t.id AND cursor.kind = 'subscription') place ON true
  LEFT JOIN LATERAL topic_extent(t.id, place.seq + 1, h.head_seq, h.holes_seq) extent ON true
  LEFT JOIN LATERAL (
       SELECT sum(source.head_seq - cursor.seq)::bigint AS records,
              min(topic_next_ts(r.source_id, greatest(cursor.seq, source.floor_seq))) AS ts
         FROM routers_router r
         JOIN topics_cursor cursor ON cursor.id = r.cursor_id JOIN topics_topichead source ON source.topic_id = r.source_id
        WHERE r.dest_id = t.id AND cursor.seq < source.head_seq) coming ON true;
