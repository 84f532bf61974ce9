-- Returns true if all that a reader planned to read still exists, in the snapshot of the statement that reads it. Otherwise it
-- raises an error that names what is missing. p_floor is the topic's floor at the time of the plan, and p_first the first seq
-- that this statement reads. Records deleted by tag do not count: readers get no tombstone for deletes.
CREATE OR REPLACE FUNCTION pipeline_check(p_topic text, p_topic_id bigint, p_floor bigint, p_first bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    earliest bigint;
BEGIN
    SELECT s.earliest_seq INTO earliest
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0
                                           THEN (extract(epoch FROM statement_timestamp()) * 1000)::bigint - t.ttl_ms END) s
     WHERE t.id = p_topic_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'topic % was deleted while it was read', p_topic USING ERRCODE = 'data_exception';
    END IF;
    IF earliest - 1 > p_floor AND earliest > p_first THEN
        RAISE EXCEPTION 'topic % lost its records up to seq % while it was read', p_topic, earliest - 1
              USING ERRCODE = 'data_exception';
    END IF;
    RETURN true;
END
$$;
