-- Marks the records of several deletes by tag that share a transaction. The n-th delete is for the topic p_ids[p_of[n]] and the
-- tag p_tags[n], below p_before_seqs[n] (NULL: all). p_ids are in order, each with the version and expiry (as in topic_expire)
-- that the caller knows. Returns the marked records by topic and delete. A delete that finds no record has a row without a seq.
-- topic_delete_marked does the rest.
--
-- A topic has no row if its version differs, if it has forwarded records, or if the deletes match more than 5,000 records. Then
-- topic_delete_match deletes, so that no delete waits for another large one.
CREATE OR REPLACE FUNCTION topic_mark_tagged(
    p_ids bigint[], p_versions bigint[], p_expired_ts bigint[], p_of bigint[], p_tags text[], p_before_seqs bigint[]
) RETURNS TABLE (of_topic bigint, of_version bigint, of_expired_ts bigint, ns bigint[], seqs bigint[], sizes integer[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- The places of the records. Only a holder of the lock below changes rows, so none moves before its mark.
    logged_at   tid[];
    volatile_at tid[];
BEGIN
    -- One delete by tag at a time in a topic (topic_delete_match).
    PERFORM pg_advisory_xact_lock(7003, (id % 2147483648)::integer) FROM unnest(p_ids) id;
    FOR of_topic, of_version, of_expired_ts, ns, seqs, sizes, logged_at, volatile_at IN
        SELECT head.topic_id, head.version, expired_ts, array_agg(n), array_agg(seq), array_agg(size),
               array_agg(place) FILTER (WHERE NOT volatile), array_agg(place) FILTER (WHERE volatile)
          FROM unnest(p_ids, p_versions, p_expired_ts) WITH ORDINALITY AS known (topic_id, version, expired_ts, i)
         CROSS JOIN LATERAL (SELECT * FROM topics_topichead newest WHERE newest.topic_id = known.topic_id LIMIT 1) head
          JOIN unnest(p_of, p_tags, p_before_seqs) WITH ORDINALITY AS asked (i, tag, before_seq, n) USING (i)
          -- One comparison of tag and seq leaves the planner one index to use, whatever it estimates.
          LEFT JOIN LATERAL (SELECT seq, size, ctid AS place, volatile FROM topics_record
                              WHERE topic_id = head.topic_id AND tag = asked.tag AND (tag, seq) > (asked.tag, floor_seq)
                                AND (tag, seq) <= (asked.tag, least(before_seq - 1, head_seq)) AND NOT deleted
                                AND (expired_ts IS NULL OR ts >= expired_ts)
                              LIMIT 5001) found ON true
         WHERE head.version = known.version
           AND NOT EXISTS (SELECT FROM topics_span
                            WHERE topic_id = head.topic_id AND last_seq > floor_seq AND home_id IS NOT NULL)
         GROUP BY i, head.topic_id, head.version, expired_ts
         ORDER BY i
    LOOP
        CONTINUE WHEN cardinality(seqs) > 5000;
        UPDATE topics_record_logged SET deleted = true WHERE ctid = ANY (logged_at);
        IF volatile_at IS NOT NULL THEN
            UPDATE topics_record_volatile SET deleted = true WHERE ctid = ANY (volatile_at);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
