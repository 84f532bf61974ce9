-- Returns the next p_limit live records of a topic in (p_after, p_upto], own and forwarded, in order of seq. The caller keeps
-- p_after at or above the floor, and above the expired records.
--
-- Above holes_seq the records are a range of the primary key. Below, p_limit records and p_limit spans contain the next p_limit
-- live seqs. One plan serves all values, as in topic_diff_with_holes.
CREATE OR REPLACE FUNCTION topic_next(p_topic_id bigint, p_after bigint, p_upto bigint, p_limit integer)
RETURNS TABLE (seq bigint, ts bigint, node text, tag text, meta text, data json, size integer)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    last bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM topics_span WHERE topic_id = p_topic_id AND last_seq > p_after AND shown) THEN
        RETURN QUERY
        SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
         WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted
         ORDER BY seq LIMIT p_limit;
        RETURN;
    END IF;
    SELECT last_seq - (run - p_limit) INTO last
      FROM (SELECT last_seq, sum(length) OVER (ORDER BY last_seq) AS run
              FROM ((SELECT seq AS last_seq, 1 AS length FROM topics_record
                      WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT last_seq, last_seq - greatest(first_seq, p_after + 1) + 1 FROM topics_span
                      WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT p_limit)) entry) entry
     WHERE run >= p_limit ORDER BY last_seq LIMIT 1;
    last := coalesce(least(last, p_upto), p_upto);
    RETURN QUERY
    SELECT * FROM (
        SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
         WHERE topic_id = p_topic_id AND seq > p_after AND seq <= last AND NOT deleted
        UNION ALL
        SELECT seq, ts, node, tag, meta, data, size FROM topic_forwarded(p_topic_id, p_after + 1, last)) entry
     ORDER BY seq;
END
$$;
