-- Returns the spans of a topic that contain any of the seqs p_first..p_last. Spans do not overlap, so at most one extends past
-- p_last.
--
-- The order is the primary key's. So the planner uses this key even if its statistics say that the table is empty and all
-- indexes cost the same.
CREATE OR REPLACE FUNCTION topic_spans(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS SETOF topics_span
LANGUAGE sql STABLE AS $$
    SELECT * FROM (SELECT * FROM topics_span
                    WHERE topic_id = p_topic_id AND last_seq >= p_first AND last_seq <= p_last ORDER BY last_seq) within
    UNION ALL
    SELECT * FROM (SELECT * FROM topics_span
                    WHERE topic_id = p_topic_id AND last_seq > p_last AND last_seq >= p_first ORDER BY last_seq LIMIT 1) beyond
     WHERE first_seq <= p_last
$$;
