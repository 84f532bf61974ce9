-- Returns the visible dead letters with these seqs, in order of seq, until the payload reaches p_bytes. Raises
-- an error if p_version is not the current version. p_expired_ts: records with a lower ts are expired (NULL: none).
CREATE OR REPLACE FUNCTION queue_letters(
    p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_seqs bigint[], p_bytes bigint
) RETURNS TABLE (seq bigint, node text, tag text, meta text, data text, size integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    head  topics_topichead;
    floor bigint;
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    floor := head.floor_seq;
    IF p_expired_ts IS NOT NULL THEN
        floor := greatest(floor, topic_seq_at(p_topic_id, floor, head.head_seq, p_expired_ts) - 1);
    END IF;
    RETURN QUERY
    SELECT letter.seq, letter.node, letter.tag, letter.meta, letter.data::text, letter.size
      FROM (SELECT *, sum(size) OVER (ORDER BY seq) - size AS before
              FROM topic_shown(p_topic_id, ARRAY(SELECT DISTINCT seq FROM unnest(p_seqs) seq WHERE seq > floor))) letter
     WHERE letter.before < p_bytes
     ORDER BY letter.seq;
END
$$;
