-- Takes off a topic what was marked for several deletes (topic_mark_tagged): p_seqs[i], of p_sizes[i] bytes, for the delete p_ns[i]; no
-- seq where that found nothing. Returns how many records went with each, and what the topic held then, as if they had come one
-- after the other. Undoes the transaction where p_version is not the current one.
--
-- The first record that the topic shows may go with one of them, which counts as the last: it alone moves the floor.
CREATE OR REPLACE FUNCTION topic_delete_marked(
    p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_ns bigint[], p_seqs bigint[], p_sizes integer[]
) RETURNS TABLE (n bigint, deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    seen bigint;  -- the floor behind the lock: what an eviction or expiry dropped since it was marked was counted there
    gone record;
BEGIN
    SELECT floor_seq INTO seen FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    SELECT count(*) AS records, sum(size) AS bytes, min(seq) AS first, max(seq) AS last INTO gone
      FROM unnest(p_seqs, p_sizes) marked (seq, size) WHERE seq > seen;
    IF gone.records > 0 THEN
        UPDATE topics_topichead SET holes_seq = greatest(holes_seq, gone.last) WHERE topic_id = p_topic_id;
        PERFORM topic_shrink(p_topic_id, seen, gone.records, gone.bytes);
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- last: it has to find the count without what is marked
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN QUERY
    SELECT each.n, each.records, least(floor_seq + 1, CASE WHEN row_number() OVER by_first > 1 THEN gone.first END), head_seq,
           count + (sum(each.records) OVER by_first)::bigint - each.records, bytes + (sum(each.size) OVER by_first)::bigint - each.size
      FROM (SELECT n, count(*) FILTER (WHERE seq > seen) AS records, coalesce(sum(size) FILTER (WHERE seq > seen), 0)::bigint AS size,
                   min(seq) FILTER (WHERE seq > seen) AS first
              FROM unnest(p_ns, p_seqs, p_sizes) marked (n, seq, size) GROUP BY n) each
     CROSS JOIN topics_topichead
     WHERE topic_id = p_topic_id
    WINDOW by_first AS (ORDER BY first, each.n ROWS UNBOUNDED PRECEDING);
END
$$;
