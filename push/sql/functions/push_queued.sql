-- The records of a queue, seqs p_first..p_last, as they were written. `topic` is the bus topic whose router led a record here. It is
-- empty for a record that was appended to the queue, and for a record that another router led here.
--
-- No text is taken out of `data`: clients send it, and PostgreSQL raises for some JSON that it stores. A worker looks into it
-- (push/events.py).
CREATE OR REPLACE FUNCTION push_queued(p_queue_id bigint, p_first bigint, p_last bigint)
RETURNS TABLE (seq bigint, topic text, data json, size integer)
LANGUAGE sql STABLE AS $$
    SELECT seq, '', data, size FROM topics_record WHERE topic_id = p_queue_id AND seq >= p_first AND seq <= p_last AND NOT deleted
    UNION ALL
    SELECT seq, coalesce(substring(path[cardinality(path)] FROM '^bus:([a-z_]{1,32})>bus[.]queue:'), ''), data, size
      FROM topic_forwarded(p_queue_id, p_first, p_last)
$$;
