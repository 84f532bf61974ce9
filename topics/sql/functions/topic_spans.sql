-- The spans of a topic that hold some of the seqs p_first..p_last. They do not overlap: one at the most goes on past p_last.
--
-- Version 2: in order, which is the primary key's. So a planner that takes the table for an empty one, and every index for as good
-- as the next, goes by that key.
CREATE OR REPLACE FUNCTION topic_spans(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS SETOF topics_span
LANGUAGE sql STABLE AS $$
    SELECT * FROM (SELECT * FROM topics_span
                    WHERE topic_id = p_topic_id AND last_seq >= p_first AND last_seq <= p_last ORDER BY last_seq) within
    UNION ALL
    SELECT * FROM (SELECT * FROM topics_span
                    WHERE topic_id = p_topic_id AND last_seq > p_last AND last_seq >= p_first ORDER BY last_seq LIMIT 1) beyond
     WHERE first_seq <= p_last
$$;
