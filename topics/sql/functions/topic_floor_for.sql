-- Returns the lowest floor that drops at least p_records records and p_bytes payload bytes from the old end of a topic. In a
-- whole topic (topic_is_whole.sql) this is a search in the running totals. In a topic with holes or spans it reads entry by
-- entry, a few at first, so that each append reads about as many entries as it evicts. The caller holds the head row FOR UPDATE.
CREATE OR REPLACE FUNCTION topic_floor_for(p_topic_id bigint, p_records bigint, p_bytes bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    head    topics_topichead;
    entry   record;
    size    bigint;
    floor   bigint;
    batch   integer := 8;
    seen    integer;
    records bigint := greatest(p_records, 0);
    bytes   bigint := greatest(p_bytes, 0);
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    floor := head.floor_seq;
    IF topic_is_whole(head) THEN
        RETURN least(head.head_seq, greatest(floor + records,
            CASE WHEN bytes > 0 THEN topic_seq_of_bytes(p_topic_id, floor + 1, head.head_seq, bytes) END));
    END IF;
    LOOP
        seen := 0;
        FOR entry IN
            SELECT * FROM (
                (SELECT seq AS last_seq, r.size AS own_size, NULL::bigint AS home_id, 1::bigint AS home_since, 1::bigint AS home_last_seq
                   FROM topics_record r WHERE topic_id = p_topic_id AND seq > floor AND NOT deleted ORDER BY seq LIMIT batch)
                UNION ALL
                (SELECT last_seq, NULL, home_id, home_first_seq + greatest(floor + 1 - first_seq, 0), home_last_seq
                   FROM topics_span WHERE topic_id = p_topic_id AND last_seq > floor AND shown ORDER BY last_seq LIMIT batch)) entries
             ORDER BY last_seq LIMIT batch
        LOOP
            size := coalesce(entry.own_size, topic_range_bytes(entry.home_id, entry.home_since, entry.home_last_seq));
            IF entry.home_last_seq - entry.home_since + 1 >= records AND size >= bytes THEN  -- the new floor is in this entry
                RETURN entry.last_seq - (entry.home_last_seq - greatest(entry.home_since + records - 1,
                    CASE WHEN bytes > 0 AND entry.home_id IS NOT NULL
                         THEN topic_seq_of_bytes(entry.home_id, entry.home_since, entry.home_last_seq, bytes) ELSE entry.home_since END));
            END IF;
            records := greatest(records - (entry.home_last_seq - entry.home_since + 1), 0);
            bytes := greatest(bytes - size, 0);
            floor := entry.last_seq;
            seen := seen + 1;
        END LOOP;
        IF seen < batch THEN
            RETURN head.head_seq;
        END IF;
        batch := least(batch * 4, 1000);
    END LOOP;
END
$$;
