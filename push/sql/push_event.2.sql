-- The objects of a queue, seqs p_first..p_last. Only push_take calls this, for workers of earlier versions during an upgrade.
--
-- Version 2: it looks at the kind of a value and takes no text out of it. To take text out raises for \u0000 anywhere in the value.
CREATE OR REPLACE FUNCTION push_event(p_queue_id bigint, p_first bigint, p_last bigint)
RETURNS TABLE (seq bigint, data json, size integer)
LANGUAGE sql STABLE AS $$
    SELECT seq, data, size
      FROM (SELECT seq, data, size FROM topics_record WHERE topic_id = p_queue_id AND seq >= p_first AND seq <= p_last AND NOT deleted
            UNION ALL
            SELECT seq, data, size FROM topic_forwarded(p_queue_id, p_first, p_last)) shown
     WHERE json_typeof(data) = 'object'
$$;
