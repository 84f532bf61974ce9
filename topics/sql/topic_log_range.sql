-- topic_log, seqs p_first..p_last of one topic: by the index of its spans, and by the primary key at their homes.
CREATE OR REPLACE FUNCTION topic_log_range(p_topic text, p_first bigint, p_last bigint) RETURNS SETOF topic_log
LANGUAGE sql STABLE AS $$
    SELECT t.name::varchar, r.seq, r.ts, r.node, r.tag, r.meta, r.data, t.name::varchar, t.id, r.seq, '{}'::text[]
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
      JOIN topics_record r ON r.topic_id = t.id AND r.seq > h.floor_seq AND r.seq >= p_first AND r.seq <= p_last
     WHERE t.name = p_topic AND NOT r.deleted
       AND (t.ttl_ms = 0 OR r.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
    UNION ALL
    SELECT t.name, s.first_seq + r.seq - s.home_first_seq, s.ts,
           CASE WHEN s.keep_node THEN r.node END, CASE WHEN s.keep_tag THEN r.tag END,
           CASE WHEN s.stamp_router IS NULL THEN r.meta
                ELSE stamped_meta(r.meta, s.stamp_router, s.stamp_source, s.stamp_source_id,
                                  s.stamp_first_seq + r.seq - s.home_first_seq)::json END,
           r.data, home.name, s.home_id, r.seq, s.path
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_spans(t.id, greatest(p_first, h.floor_seq + 1), p_last) s
     CROSS JOIN LATERAL (
           SELECT seq, node, tag, meta, data FROM topics_record
            WHERE topic_id = s.home_id
              AND seq >= s.home_first_seq + greatest(p_first - s.first_seq, h.floor_seq + 1 - s.first_seq, 0)
              AND seq <= s.home_last_seq - greatest(s.last_seq - p_last, 0)
           OFFSET 0) r
     CROSS JOIN LATERAL (
           SELECT coalesce((SELECT name FROM topics_topic WHERE id = s.home_id),
                           (SELECT name FROM topics_deletedtopic WHERE id = s.home_id)) AS name OFFSET 0) home
     WHERE t.name = p_topic AND s.shown
       AND (t.ttl_ms = 0 OR s.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
$$;
