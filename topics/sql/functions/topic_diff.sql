-- Reads a topic once (docs/wire.md): the window of the next p_limit live seqs as JSON, with all that the answer says about the
-- topic. The function is STABLE, so each of its queries sees one snapshot. It returns no row if the topic does not exist, or
-- p_version is not the current version.
--
-- Above holes_seq a window is a plain range of the primary key, and this function reads it. Below, topic_diff_with_holes reads
-- it. p_nodes are the reader's own nodes, left out after the window is fixed. p_match is a tag (Eq) or its prefix (Glob).
-- Records older than p_expired_ts are expired.
--
-- A recreated topic tells a reader that has a cursor of its predecessor. A cursor below recreated_seq gets the tombstone at
-- once. A cursor at recreated_seq gets it with the first new record: only then can that reader advance, and does not get the
-- tombstone again.
--
-- lost_from is the first seq that a crash or restart took back.
CREATE OR REPLACE FUNCTION topic_diff(
    p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text,
    p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint,
    OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint,
    OUT lost text, OUT gap_to bigint, OUT lost_from bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    head   topics_topichead;
    after  bigint;  -- the window begins after it
    upto   bigint;
    base   bigint;
    holes record;
BEGIN
    SELECT * INTO head FROM topics_topichead h WHERE h.topic_id = p_topic_id AND h.version = p_version;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        head := topic_as_expired(head, p_expired_ts);
    END IF;
    head_seq := head.head_seq;
    earliest_seq := head.floor_seq + 1;

    -- The losses between p_from_seq and the floor, with their reasons.
    after := greatest(p_from_seq, head.floor_seq);
    IF p_from_seq > head.head_seq THEN
        lost := 'recreated';
        after := head.floor_seq;
    ELSIF head.recreated_seq > 0 AND head.recreated_seq >= p_from_seq AND head.head_seq > p_from_seq THEN
        lost := 'recreated';
    ELSIF greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq, head.source_lost_seq, head.capture_lost_seq) > p_from_seq THEN
        SELECT CASE WHEN count(*) > 1 THEN 'mixed' ELSE min(why) END INTO lost
          FROM (VALUES ('cap', head.cap_lost_seq), ('ttl', head.ttl_lost_seq),
                       ('restart', head.restart_lost_seq), ('source_trim', head.source_lost_seq),
                       ('capture', head.capture_lost_seq)) loss (why, seq)
         WHERE seq > p_from_seq;
        IF head.restart_lost_seq > p_from_seq THEN
            lost_from := topic_lost_from(p_topic_id, p_from_seq);
        END IF;
    END IF;
    gap_to := head.floor_seq;

    IF after < head.holes_seq THEN
        -- An assignment, because a SELECT makes a small read a tenth slower.
        holes := topic_diff_with_holes(head, after, lost, p_limit, p_nodes, p_match_op, p_match, p_with_tags, p_with_meta, p_bytes);
        records := holes.records;
        scanned := holes.scanned;
        next_from_seq := holes.next_from_seq;
        lost := holes.lost;
        gap_to := holes.gap_to;
        IF lost = 'restart' AND lost_from IS NULL THEN
            lost_from := topic_lost_from(p_topic_id, p_from_seq);
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    upto := least(after + p_limit, head.head_seq);
    IF upto <= after THEN
        scanned := 0;
        next_from_seq := upto;
        RETURN NEXT;
        RETURN;
    END IF;

    -- Own, live, logged records without a hole. `total` grows with each record, so the byte budget is a bound on it. The
        -- first record always fits.
    IF upto > after + 1 THEN
        SELECT total - size + p_bytes INTO base FROM topics_record_logged WHERE topic_id = p_topic_id AND seq = after + 1;
    END IF;
    SELECT string_agg(record_json(seq, ts, node, tag, meta::text, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
               FILTER (WHERE (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                         AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
           count(*), coalesce(max(seq), upto)
      INTO records, scanned, next_from_seq
      FROM topics_record_logged
     WHERE topic_id = p_topic_id AND seq > after AND seq <= upto
       AND (total <= base OR seq = after + 1);
    RETURN NEXT;
END
$$;
