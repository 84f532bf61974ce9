-- Which of the home records p_first..p_last some topic shows through a span: that part of each shown span above its topic's floor.
-- Spans are at most 100,000 long, so those that reach in from above end before p_last + 100000; the many short ones among
-- them end sooner, and the few long ones have an index of their own.
--
-- Version 2: in PL/pgSQL, which keeps its plan; a function in SQL, which cannot be put in line here, is set up anew at each call.
CREATE OR REPLACE FUNCTION reclaim_covered(p_home_id bigint, p_first bigint, p_last bigint) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(range_agg(int8range(home_first_seq + greatest(floor_seq + 1 - first_seq, 0), home_last_seq, '[]')), '{}')
          FROM (SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_first AND home_last_seq < p_last + 1000
                UNION ALL
                SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_last + 1000 AND home_last_seq < p_last + 100000
                   AND home_last_seq - home_first_seq >= 1000) span
         CROSS JOIN LATERAL (SELECT floor_seq FROM topics_topichead WHERE topic_id = span.topic_id OFFSET 0) head  -- a deleted topic shows nothing
         WHERE shown AND home_first_seq <= p_last AND last_seq > floor_seq);
END
$$;
