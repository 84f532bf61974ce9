-- Returns the lowest floor that drops at least p_records records and p_bytes payload bytes from the old end of a topic. In a
-- whole topic (topic_is_whole.sql) this is a search in the running totals. It is one, too, if the floor is above holes_seq. Otherwise it reads entry by entry, a few at first, so that each append reads about as many entries as it evicts. After
-- p_entries entries (NULL: any number) it returns the floor above these, which drops less. The caller holds the head row FOR UPDATE.
CREATE OR REPLACE FUNCTION topic_floor_for(p_topic_id bigint, p_records bigint, p_bytes bigint, p_entries integer DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    head    topics_topichead;
    entry   record;
    size    bigint;
    floor   bigint;
    batch   integer := 8;
    seen    integer;
    read    integer := 0;
    plain   bigint;  -- records above holes_seq
    over_records bigint;
    over_bytes   bigint;
    records bigint := greatest(p_records, 0);
    bytes   bigint := greatest(p_bytes, 0);
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    floor := head.floor_seq;
    IF topic_is_whole(head) THEN
        RETURN least(head.head_seq, greatest(floor + records,
            CASE WHEN bytes > 0 THEN topic_seq_of_bytes(p_topic_id, floor + 1, head.head_seq, bytes) END));
    END IF;
    plain := head.head_seq - head.holes_seq;
    IF plain > 0 THEN
        -- What is over after all records up to holes_seq are dropped, which may be less than nothing.
        over_records := records - (head.count - plain);
        over_bytes := bytes - (head.bytes - topic_range_bytes(p_topic_id, head.holes_seq + 1, head.head_seq));
        IF over_records >= 0 OR bytes > 0 AND over_bytes >= 0 THEN
            RETURN least(head.head_seq, head.holes_seq + greatest(over_records, 0,
                CASE WHEN over_bytes > 0
                     THEN topic_seq_of_bytes(p_topic_id, head.holes_seq + 1, head.head_seq, over_bytes) - head.holes_seq END));
        END IF;
    END IF;
    LOOP
        seen := 0;
        FOR entry IN
            SELECT * FROM (
                (SELECT seq AS last_seq, r.size AS own_size, NULL::bigint AS home_id, 1::bigint AS home_since, 1::bigint AS home_last_seq,
                        deleted AS passed
                   FROM topics_record r WHERE topic_id = p_topic_id AND seq > floor ORDER BY seq LIMIT batch)
                UNION ALL
                (SELECT last_seq, NULL, home_id, home_first_seq + greatest(floor + 1 - first_seq, 0), home_last_seq,
                        NOT shown
                   FROM topics_span WHERE topic_id = p_topic_id AND last_seq > floor ORDER BY last_seq LIMIT batch)) entries
             ORDER BY last_seq LIMIT batch
        LOOP
            floor := entry.last_seq;
            seen := seen + 1;
            CONTINUE WHEN entry.passed;
            size := coalesce(entry.own_size, topic_range_bytes(entry.home_id, entry.home_since, entry.home_last_seq));
            IF entry.home_last_seq - entry.home_since + 1 >= records AND size >= bytes THEN  -- the new floor is in this entry
                RETURN entry.last_seq - (entry.home_last_seq - greatest(entry.home_since + records - 1,
                    CASE WHEN bytes > 0 AND entry.home_id IS NOT NULL
                         THEN topic_seq_of_bytes(entry.home_id, entry.home_since, entry.home_last_seq, bytes) ELSE entry.home_since END));
            END IF;
            records := greatest(records - (entry.home_last_seq - entry.home_since + 1), 0);
            bytes := greatest(bytes - size, 0);
        END LOOP;
        IF seen < batch THEN
            RETURN head.head_seq;
        END IF;
        read := read + seen;
        IF read >= p_entries THEN
            RETURN floor;
        END IF;
        batch := least(batch * 4, 1000, p_entries - read);
    END LOOP;
END
$$;
