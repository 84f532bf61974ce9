-- Marks what several deletes by tag ask for that share a transaction: the n-th is asked of the topic p_ids[p_of[n]], for p_tags[n] below
-- p_before_seqs[n] (NULL: all). p_ids are in order, each with the version and the expiry (as in topic_expire) that the caller knows.
-- Returns, by topic, what it marked for which of them, with no seq for one that finds nothing. topic_delete_marked does the rest.
--
-- No row comes back of a topic that is in another version, in which something came through a router, or of which more than 5,000
-- records were asked for. That is for topic_delete_match: nobody is to wait for another's large delete.
CREATE OR REPLACE FUNCTION topic_mark_tagged(
    p_ids bigint[], p_versions bigint[], p_expired_ts bigint[], p_of bigint[], p_tags text[], p_before_seqs bigint[]
) RETURNS TABLE (of_topic bigint, of_version bigint, of_expired_ts bigint, ns bigint[], seqs bigint[], sizes integer[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    -- One delete by tag at a time in a topic, as topic_delete_match says.
    PERFORM pg_advisory_xact_lock(7003, (id % 2147483648)::integer) FROM unnest(p_ids) id;
    FOR of_topic, of_version, of_expired_ts, ns, seqs, sizes IN
        SELECT head.topic_id, head.version, expired_ts, array_agg(n), array_agg(seq), array_agg(size)
          FROM unnest(p_ids, p_versions, p_expired_ts) WITH ORDINALITY AS known (topic_id, version, expired_ts, place)
          JOIN topics_topichead head USING (topic_id, version)
          JOIN unnest(p_of, p_tags, p_before_seqs) WITH ORDINALITY AS asked (place, tag, before_seq, n) USING (place)
          -- Tag and seq are compared as one, for which there is one index, whatever the planner believes.
          LEFT JOIN LATERAL (SELECT seq, size FROM topics_record
                              WHERE topic_id = head.topic_id AND tag = asked.tag AND (tag, seq) > (asked.tag, floor_seq)
                                AND (tag, seq) <= (asked.tag, least(before_seq - 1, head_seq)) AND NOT deleted
                                AND (expired_ts IS NULL OR ts >= expired_ts)
                              LIMIT 5001) found ON true
         WHERE head.topic_id = ANY (p_ids)
           AND NOT EXISTS (SELECT FROM topics_span
                            WHERE topic_id = head.topic_id AND last_seq > floor_seq AND home_id IS NOT NULL)
         GROUP BY place, head.topic_id, head.version, expired_ts
         ORDER BY place
    LOOP
        CONTINUE WHEN cardinality(seqs) > 5000;
        UPDATE topics_record SET deleted = true WHERE topic_id = of_topic AND seq = ANY (seqs);
        RETURN NEXT;
    END LOOP;
END
$$;
