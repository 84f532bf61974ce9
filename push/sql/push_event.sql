-- The events of a queue, seqs p_first..p_last: what it shows, own (a test event) and forwarded. Somebody with a key of /v0 may have
-- written below `bus:` what is no event: that is passed over.
CREATE OR REPLACE FUNCTION push_event(p_queue_id bigint, p_first bigint, p_last bigint)
RETURNS TABLE (seq bigint, data json, size integer)
LANGUAGE sql STABLE AS $$
    SELECT seq, data, size
      FROM (SELECT seq, data, size FROM topics_record WHERE topic_id = p_queue_id AND seq >= p_first AND seq <= p_last AND NOT deleted
            UNION ALL
            SELECT seq, data, size FROM topic_forwarded(p_queue_id, p_first, p_last)) shown
     WHERE data ->> 'type' IS NOT NULL
$$;
