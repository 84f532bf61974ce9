-- Marks those of these records of a topic, in any order, that are live: own records that did not expire (p_expired_ts as in
-- topic_expire). Returns their seqs and sizes. The caller holds lock 7003 of the topic, so no row moves between the look and the
-- mark. It leaves out seqs at or below the floor and above the head.
--
-- Each seq takes a probe of the primary key (OFFSET 0), and each mark goes by the place of its row. Rejected: `seq = ANY (p_seqs)`.
-- If PostgreSQL expects few records per topic, it reads all of them: before version 17 always, and later if a range of seqs
-- stands beside the list.
CREATE OR REPLACE FUNCTION topic_mark(
    p_topic_id bigint, p_seqs bigint[], p_expired_ts bigint
) RETURNS TABLE (seq bigint, size integer)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    marked integer;
BEGIN
    RETURN QUERY
    UPDATE topics_record_logged SET deleted = true
     WHERE NOT deleted AND ctid = ANY (ARRAY(
           SELECT place FROM unnest(p_seqs) AS asked (seq)
            CROSS JOIN LATERAL (SELECT ctid AS place FROM topics_record_logged
                                 WHERE topic_id = p_topic_id AND seq = asked.seq AND NOT deleted
                                   AND (p_expired_ts IS NULL OR ts >= p_expired_ts) OFFSET 0) own))
    RETURNING seq, size;
    GET DIAGNOSTICS marked = ROW_COUNT;
    IF marked = cardinality(p_seqs) THEN  -- as in most topics, which have no volatile records
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE topics_record_volatile SET deleted = true
     WHERE NOT deleted AND ctid = ANY (ARRAY(
           SELECT place FROM unnest(p_seqs) AS asked (seq)
            CROSS JOIN LATERAL (SELECT ctid AS place FROM topics_record_volatile
                                 WHERE topic_id = p_topic_id AND seq = asked.seq AND NOT deleted
                                   AND (p_expired_ts IS NULL OR ts >= p_expired_ts) OFFSET 0) own))
    RETURNING seq, size;
END
$$;
