-- Cuts a span into pieces, and no longer shows the home seqs p_home. The other pieces stay as they are. A hidden piece keeps
-- its home, so that no cycle brings the record back. With p_lost the records themselves do not exist any more: the piece loses
-- its home, and readers get a tombstone.
--
-- The caller holds the head row of the topic FOR UPDATE, and corrects its count and bytes.
CREATE OR REPLACE FUNCTION span_hide(p_topic_id bigint, p_last_seq bigint, p_home int8multirange, p_lost boolean) RETURNS void
LANGUAGE sql AS $$
    WITH piece AS (
        SELECT span.*, lower(run) AS since, upper(run) - 1 AS until, show,
               CASE WHEN show OR NOT p_lost THEN home_id END AS piece_home_id,
               CASE WHEN show OR NOT p_lost THEN path ELSE '{}' END AS piece_path
          FROM topic_spans(p_topic_id, p_last_seq, p_last_seq) span
         CROSS JOIN LATERAL (
               SELECT unnest(p_home * whole) AS run, false AS show FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole
               UNION ALL
               SELECT unnest(whole - p_home), true FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole) runs),
    added AS (
        INSERT INTO topics_span (topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag,
                                  path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
        SELECT topic_id, last_seq - (home_last_seq - until), first_seq + (since - home_first_seq), piece_home_id, since, until, ts,
               shown AND show, keep_node, keep_tag, piece_path, stamp_router, stamp_source, stamp_source_id,
               stamp_first_seq + (since - home_first_seq)
          FROM piece WHERE until < home_last_seq)
    UPDATE topics_span span  -- the last piece keeps the row
       SET first_seq = span.first_seq + (since - span.home_first_seq), home_id = piece_home_id, home_first_seq = since,
           shown = span.shown AND show, path = piece_path, stamp_first_seq = span.stamp_first_seq + (since - span.home_first_seq)
      FROM piece
     WHERE piece.until = piece.home_last_seq
       -- The order is the primary key's, as in topic_spans.
       AND span.ctid = (SELECT ctid FROM topics_span
                         WHERE topic_id = p_topic_id AND last_seq >= p_last_seq AND last_seq <= p_last_seq ORDER BY last_seq LIMIT 1)
$$;
