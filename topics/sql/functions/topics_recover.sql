-- Repairs the heads after a crash of PostgreSQL. The crash emptied topics_survived together with the volatile records. Where
-- records are missing, the function adds a loss piece (span_hide.sql), so that readers get a tombstone 'restart'. The crash can
-- also have taken back the end of the log. So every topic continues above the seqs that a reader can have seen
-- (topics_skip_reserved). Without a crash, the function reads one row.
--
-- A database that was restored from a dump counts as crashed, because readers can have seen seqs above those of the dump.
--
-- Every process calls it on every new connection before it reads, because a crash ends all connections.
--
-- Volatile records are at or below the `volatile_seq` of their topic. So the function examines record by record only topics
-- that had some, and dests that show some. There it cannot tell holes of reclaimed deletes from lost records. In a topic that
-- lost records, such holes count as lost, too.
CREATE OR REPLACE FUNCTION topics_recover() RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head    topics_topichead;
    piece   record;
    changed boolean;
    own     bigint;
    spans   bigint;
BEGIN
    IF EXISTS (SELECT FROM topics_survived WHERE home = topics_home()) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7004);  -- several processes can find the crash at once: the first one repairs, the others wait
    IF EXISTS (SELECT FROM topics_survived WHERE home = topics_home()) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7001);  -- and no router forwards missing records meanwhile
    FOR head IN
        SELECT * FROM topics_topichead
         WHERE holes_seq > floor_seq
           AND topic_id IN (SELECT topic_id FROM topics_topichead WHERE volatile_seq > floor_seq
                            UNION ALL
                            SELECT span.topic_id
                              FROM (SELECT topic_id AS id FROM topics_topichead WHERE volatile_seq > 0
                                    UNION ALL
                                    SELECT id FROM topics_deletedtopic) home
                              JOIN topics_span span ON span.home_id = home.id)
         ORDER BY topic_id FOR UPDATE
    LOOP
        SELECT count(*) INTO own FROM topics_record
         WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.holes_seq AND NOT deleted;
        SELECT coalesce(sum(last_seq - greatest(first_seq, head.floor_seq + 1) + 1), 0) INTO spans FROM topics_span
         WHERE topic_id = head.topic_id AND last_seq > head.floor_seq AND shown;
        changed := own + spans < head.count - (head.head_seq - head.holes_seq);
        IF changed THEN
            INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                                      keep_tag, path)
            SELECT head.topic_id, lower(gap), upper(gap) - 1, NULL, 0, 0,
                   coalesce(topic_next_ts(head.topic_id, upper(gap) - 1), head.last_ts), false, true, true, '{}'
              FROM (SELECT unnest(int8multirange(int8range(head.floor_seq, head.holes_seq, '(]')) - coalesce(range_agg(there), '{}')) AS gap
                      FROM (SELECT int8range(seq, seq, '[]') AS there FROM topics_record
                             WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.holes_seq
                            UNION ALL
                            SELECT int8range(first_seq, last_seq, '[]') FROM topics_span
                             WHERE topic_id = head.topic_id AND last_seq > head.floor_seq) entry) gaps;
        END IF;
        FOR piece IN
            SELECT last_seq, int8multirange(int8range(home_first_seq, home_last_seq, '[]')) - coalesce(present, '{}') AS gone
              FROM (SELECT span.* FROM topics_span span LEFT JOIN topics_topichead home ON home.topic_id = span.home_id
                     WHERE span.topic_id = head.topic_id AND last_seq > head.floor_seq AND shown
                       AND (home.topic_id IS NULL OR home.volatile_seq >= home_first_seq)) span
             CROSS JOIN LATERAL (SELECT range_agg(int8range(seq, seq, '[]')) AS present FROM topics_record
                                  WHERE topic_id = home_id AND seq BETWEEN home_first_seq AND home_last_seq) stored
        LOOP
            IF NOT isempty(piece.gone) THEN
                PERFORM span_hide(head.topic_id, piece.last_seq, piece.gone, true);
                changed := true;
            END IF;
        END LOOP;
        IF changed THEN
            UPDATE topics_topichead SET (unsettled, count, bytes) = (
                SELECT true, records, bytes FROM topic_extent(head.topic_id, head.floor_seq + 1, head.head_seq, head.holes_seq))
             WHERE topic_id = head.topic_id;
            PERFORM topic_shrink(head.topic_id, head.floor_seq, 0, 0);
        END IF;
    END LOOP;
    PERFORM topics_skip_reserved();
    INSERT INTO topics_survived VALUES (true, topics_home()) ON CONFLICT (alive) DO UPDATE SET home = excluded.home;
END
$$;
