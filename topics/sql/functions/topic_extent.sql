-- Returns how many records and payload bytes a topic shows from p_first to p_last, own and forwarded. Above p_holes_seq this
-- takes two index probes. Below, the function reads entry by entry. The caller holds the head row, or reads a snapshot.
CREATE OR REPLACE FUNCTION topic_extent(
    p_topic_id bigint, p_first bigint, p_last bigint, p_holes_seq bigint, OUT records bigint, OUT bytes bigint
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    plain bigint := greatest(p_first, p_holes_seq + 1);
    upto  bigint := least(p_last, p_holes_seq);
BEGIN
    records := 0; bytes := 0;
    IF plain <= p_last THEN
        records := p_last - plain + 1;
        bytes := topic_range_bytes(p_topic_id, plain, p_last);
    END IF;
    IF p_first > upto THEN
        RETURN;
    END IF;
    SELECT records + count(*), bytes + coalesce(sum(size), 0) INTO records, bytes
      FROM topics_record
     WHERE topic_id = p_topic_id AND seq BETWEEN p_first AND upto AND NOT deleted;
    -- The body of topic_range_bytes: a call of it for each of many short spans would take three times as long.
    SELECT records + coalesce(sum(until - since + 1), 0), bytes + coalesce(sum(
               CASE WHEN since = until THEN (SELECT size FROM topics_record WHERE topic_id = home_id AND seq = until)
                    ELSE (SELECT total FROM topics_record WHERE topic_id = home_id AND seq = until)
                         - (SELECT total - size FROM topics_record WHERE topic_id = home_id AND seq = since) END), 0)
      INTO records, bytes
      FROM (SELECT home_id,
                   home_first_seq + greatest(p_first - first_seq, 0) AS since,
                   home_last_seq - greatest(last_seq - upto, 0) AS until
              FROM topic_spans(p_topic_id, p_first, upto)
             WHERE shown) piece;
END
$$;
