-- Takes marked records off a topic, for several deletes at once (topic_mark_tagged). p_seqs[i] with p_sizes[i] bytes belongs to
-- the delete p_ns[i]. A delete that found no record has no seq. Returns the number of records of each delete, and the topic's
-- figures after it, as if the deletes had come one after another. If p_version is not the current version, it rolls back the
-- transaction.
--
-- The delete that removes the first live record counts as the last one: it alone advances the floor.
CREATE OR REPLACE FUNCTION topic_delete_marked(
    p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_ns bigint[], p_seqs bigint[], p_sizes integer[]
) RETURNS TABLE (n bigint, deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    seen bigint;  -- the floor under the lock: evictions and expiry since the mark counted the records below it
    gone record;
BEGIN
    SELECT floor_seq INTO seen FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    SELECT count(*) AS records, sum(size) AS bytes, min(seq) AS first, max(seq) AS last INTO gone
      FROM unnest(p_seqs, p_sizes) marked (seq, size) WHERE seq > seen;
    IF gone.records > 0 THEN
        PERFORM topic_shrink(p_topic_id, seen, gone.records, gone.bytes, gone.last);
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- last, because expiry must find the count without the marked records
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN QUERY
    SELECT each.n, each.records, least(latest.earliest_seq, CASE WHEN row_number() OVER by_first > 1 THEN gone.first END), latest.head_seq,
           latest.records + (sum(each.records) OVER by_first)::bigint - each.records,
           latest.payload + (sum(each.size) OVER by_first)::bigint - each.size
      FROM (SELECT n, count(*) FILTER (WHERE seq > seen) AS records, coalesce(sum(size) FILTER (WHERE seq > seen), 0)::bigint AS size,
                   min(seq) FILTER (WHERE seq > seen) AS first
              FROM unnest(p_ns, p_seqs, p_sizes) marked (n, seq, size) GROUP BY n) each
     CROSS JOIN (SELECT head_seq, stat.* FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, p_expired_ts) stat
                  WHERE topic_id = p_topic_id LIMIT 1) latest
    WINDOW by_first AS (ORDER BY first, each.n ROWS UNBOUNDED PRECEDING);
END
$$;
