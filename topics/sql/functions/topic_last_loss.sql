-- The last seq in (p_after, p_upto] that was lost to p_why before a reader could have it; NULL when there is none. A loss is a
-- piece without a home: 'source_trim' came through routers, 'restart' through none (topics_recover.sql).
--
-- Version 2: in PL/pgSQL, which keeps its plan; a function in SQL, which cannot be put in line here, is set up anew at each call.
CREATE OR REPLACE FUNCTION topic_last_loss(p_topic_id bigint, p_after bigint, p_upto bigint, p_why text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT last_seq FROM topics_span
         WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND home_id IS NULL
           AND (path = '{}') = (p_why = 'restart')
         ORDER BY last_seq DESC LIMIT 1);
END
$$;
