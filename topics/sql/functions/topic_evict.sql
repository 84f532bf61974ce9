-- Evicts the oldest records of a topic that exceeds its caps (0: no cap). The caller holds the head row FOR UPDATE.
--
-- PL/pgSQL keeps the plan. PostgreSQL cannot inline this query, and would plan an SQL function again at each call.
CREATE OR REPLACE FUNCTION topic_evict(p_topic_id bigint, p_cap_records bigint, p_cap_bytes bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT (topic_trim(topic_id, topic_floor_for(topic_id, over_records, over_bytes), 'cap')).records
          FROM (SELECT topic_id,
                       CASE WHEN p_cap_records > 0 THEN count - p_cap_records ELSE 0 END AS over_records,
                       CASE WHEN p_cap_bytes > 0 THEN bytes - p_cap_bytes ELSE 0 END AS over_bytes
                  FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1) head
         WHERE over_records > 0 OR over_bytes > 0);
END
$$;
