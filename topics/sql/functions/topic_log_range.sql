-- Returns the rows p_first..p_last of topic_log for one topic. It uses the index of its spans, and the primary key at their
-- homes.
CREATE OR REPLACE FUNCTION topic_log_range(p_topic text, p_first bigint, p_last bigint) RETURNS SETOF topic_log
LANGUAGE sql STABLE AS $$
    SELECT t.name::varchar, r.seq, r.ts, r.node, r.tag, r.meta, r.data, t.name::varchar, t.id, r.seq, '{}'::text[]
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
      JOIN topics_record r ON r.topic_id = t.id AND r.seq > h.floor_seq AND r.seq >= p_first AND r.seq <= p_last
     WHERE t.name = p_topic AND NOT r.deleted
       AND (t.ttl_ms = 0 OR r.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
    UNION ALL
    SELECT t.name, f.seq, f.ts, f.node, f.tag, f.meta::json, f.data, home.name, f.home_id, f.home_seq, f.path
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_forwarded(t.id, greatest(p_first, h.floor_seq + 1), p_last) f
     CROSS JOIN LATERAL (
           SELECT coalesce((SELECT name FROM topics_topic WHERE id = f.home_id),
                           (SELECT name FROM topics_deletedtopic WHERE id = f.home_id)) AS name OFFSET 0) home
     WHERE t.name = p_topic
       AND (t.ttl_ms = 0 OR f.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
$$;
