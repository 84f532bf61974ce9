-- Examines at most p_limit rows from seq p_first on that a topic no longer shows: own records below its floor or marked
-- deleted, and spans below its floor. In a deleted topic these are all rows. A record is free if no span shows it. A span is
-- free, with two exceptions. On a cycle, the dest of a router keeps a span while its home row is stored: the span keeps the
-- record from coming back. A loss stays until each router has told its dest.
--
-- p_remove deletes the free rows. Returns the number of rows examined, the number of free rows, the last seq (NULL: no row was
-- left), and the floor for which this is true.
--
-- To delete, the caller must hold ADVANCE_LOCK (7001) exclusively since before this statement. So no transaction inserts a span
-- over a record that looks free. The function only reads heads, so appends do not wait. The caller keeps out deletes by tag,
-- too (7003).
CREATE OR REPLACE FUNCTION reclaim_chunk(
    p_topic_id bigint, p_first bigint, p_limit bigint, p_remove boolean,
    OUT examined bigint, OUT free bigint, OUT last_seq bigint, OUT floor_seq bigint
)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    below   bigint;
    kept    boolean;
    own     bigint[];
    pieces  bigint[];
    covered int8multirange;
BEGIN
    SELECT h.floor_seq, h.keeps_evidence INTO below, kept FROM topics_topichead h WHERE h.topic_id = p_topic_id;
    IF NOT FOUND THEN  -- a deleted topic shows no records, and no router leads into it
        below := 1::bigint << 62;
        kept := false;
    END IF;
    -- The step is bounded in bytes, because records can be large, and in seqs, which bounds the spans that can show them.
    SELECT count(*), max(seq), coalesce(array_agg(seq) FILTER (WHERE home), '{}'), coalesce(array_agg(seq) FILTER (WHERE NOT home), '{}')
      INTO examined, last_seq, own, pieces
      FROM (SELECT seq, home, min(seq) OVER () AS first, sum(size) OVER (ORDER BY seq) - size AS before
              FROM ((SELECT seq, size, true AS home FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= p_first AND seq <= below ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT seq, size, true FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= greatest(p_first, below + 1) AND deleted ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT s.last_seq, 0, false FROM topics_span s
                      WHERE topic_id = p_topic_id AND s.last_seq >= p_first AND s.last_seq <= below ORDER BY s.last_seq LIMIT p_limit)) entry
             ORDER BY seq LIMIT p_limit) entry
     WHERE before < 33554432 AND seq < first + 50000;
    covered := reclaim_covered(p_topic_id, own[1], own[cardinality(own)]);
    own := ARRAY(SELECT seq FROM unnest(own) seq WHERE NOT covered @> seq);
    pieces := ARRAY(SELECT s.last_seq FROM unnest(pieces) AS piece (last_seq)
                     CROSS JOIN LATERAL (SELECT * FROM topics_span
                                          WHERE topic_id = p_topic_id AND last_seq = piece.last_seq OFFSET 0) s
                     WHERE NOT (kept AND reclaim_stored(home_id, home_first_seq, home_last_seq))
                       AND NOT (home_id IS NULL AND EXISTS (
                           SELECT FROM topics_cursor c WHERE c.topic_id = p_topic_id AND c.kind = 'router' AND c.seq < s.last_seq)));
    IF p_remove THEN
        -- Each row takes a probe of the primary key, as in topic_mark.
        DELETE FROM topics_record_logged
         WHERE ctid = ANY (ARRAY(
               SELECT place FROM unnest(own) AS asked (seq)
                CROSS JOIN LATERAL (SELECT ctid AS place FROM topics_record_logged
                                     WHERE topic_id = p_topic_id AND seq = asked.seq OFFSET 0) record));
        DELETE FROM topics_record_volatile
         WHERE ctid = ANY (ARRAY(
               SELECT place FROM unnest(own) AS asked (seq)
                CROSS JOIN LATERAL (SELECT ctid AS place FROM topics_record_volatile
                                     WHERE topic_id = p_topic_id AND seq = asked.seq OFFSET 0) record));
        DELETE FROM topics_span
         WHERE ctid = ANY (ARRAY(
               SELECT place FROM unnest(pieces) AS piece (last_seq)
                CROSS JOIN LATERAL (SELECT ctid AS place FROM topics_span
                                     WHERE topic_id = p_topic_id AND last_seq = piece.last_seq OFFSET 0) span));
    END IF;
    free := cardinality(own) + cardinality(pieces);
    floor_seq := below;
END
$$;
