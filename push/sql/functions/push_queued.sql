-- Returns the records p_first..p_last of a queue, as they were written. `topic` is the bus topic whose router forwarded the
-- record. It is empty for a record that was appended to the queue, or that another router forwarded.
--
-- The function extracts no text from `data`. Clients send it, and PostgreSQL raises an error for some JSON that it stores. A
-- worker reads it (push/bus/events.py). `traceparent` is found in the text of `meta` for the same reason.
CREATE OR REPLACE FUNCTION push_queued(p_queue_id bigint, p_first bigint, p_last bigint)
RETURNS TABLE (seq bigint, topic text, data json, size integer, traceparent text)
LANGUAGE sql STABLE AS $$
    SELECT seq, '', data, size, substring(meta::text FROM '"traceparent": ?"([0-9a-f-]{55})"')
      FROM topics_record WHERE topic_id = p_queue_id AND seq >= p_first AND seq <= p_last AND NOT deleted
    UNION ALL
    SELECT seq, coalesce(substring(path[cardinality(path)] FROM '^bus:([a-z_]{1,64})>bus[.]queue:'), ''), data, size,
           substring(meta::text FROM '"traceparent": ?"([0-9a-f-]{55})"')
      FROM topic_forwarded(p_queue_id, p_first, p_last)
$$;
