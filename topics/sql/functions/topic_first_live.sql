-- The first seq above p_after that the topic shows; NULL when there is none.
--
-- Version 2: in PL/pgSQL, which keeps its plan; a function in SQL, which cannot be put in line here, is set up anew at each call.
CREATE OR REPLACE FUNCTION topic_first_live(p_topic_id bigint, p_after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1),
        (SELECT greatest(first_seq, p_after + 1) FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1));
END
$$;
