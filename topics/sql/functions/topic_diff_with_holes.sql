-- Reads the window of a read that begins below holes_seq, for topic_diff: the next p_limit live seqs after p_after. Records can
-- be missing there, and spans show records of other topics. The head is as topic_diff sees it, with its floor at or below
-- p_after.
--
-- A loss in the way gets its tombstone where records are missing (topic_last_loss.sql). A window ends before the loss. A window
-- that would begin with a loss starts after it, and `lost` and `gap_to` say so. If the caller already has a loss to tell
-- (p_lost), this one waits for the next read. The exception is 'recreated', which includes it: a reader at the border must
-- advance.
--
-- One plan serves all values. PostgreSQL would plan each small window again, which takes five times as long as to read a
-- record.
CREATE OR REPLACE FUNCTION topic_diff_with_holes(
    p_head topics_topichead, p_after bigint, p_lost text, p_limit integer, p_nodes text[], p_match_op text, p_match text,
    p_with_tags boolean, p_with_meta boolean, p_bytes bigint,
    OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT lost text, OUT gap_to bigint
)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    topic constant bigint := p_head.topic_id;
    after bigint := p_after;
    upto  bigint;  -- the window's end
    last  bigint;  -- the window ends here at the latest
    live  bigint;
    loss  record;
BEGIN
    lost := p_lost;
    gap_to := p_head.floor_seq;
    SELECT first_seq, last_seq, path INTO loss FROM topics_span
     WHERE topic_id = topic AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
    IF FOUND THEN
        live := topic_first_live(topic, after);
        IF (lost IS NULL OR lost = 'recreated') AND (live IS NULL OR live > loss.first_seq) THEN
            lost := coalesce(lost, topic_loss_reason(loss.path));
            gap_to := loss.last_seq;
            after := loss.last_seq;
            SELECT first_seq INTO loss FROM topics_span
             WHERE topic_id = topic AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
        END IF;
    END IF;
    last := least(p_head.head_seq, loss.first_seq - 1);

    IF p_head.count = p_head.head_seq - p_head.floor_seq THEN  -- no hole: every seq is live
        upto := least(after + p_limit, last);
    ELSE  -- the p_limit-th live seq, among p_limit next records and p_limit next spans
        SELECT last_seq - (run - p_limit) INTO upto
          FROM (SELECT last_seq, sum(length) OVER (ORDER BY last_seq) AS run
                  FROM ((SELECT seq AS last_seq, 1 AS length FROM topics_record
                          WHERE topic_id = topic AND seq > after AND seq <= last AND NOT deleted ORDER BY seq LIMIT p_limit)
                        UNION ALL
                        (SELECT last_seq, last_seq - greatest(first_seq, after + 1) + 1 FROM topics_span
                          WHERE topic_id = topic AND last_seq > after AND shown ORDER BY last_seq LIMIT p_limit)) entry) entry
         WHERE run >= p_limit ORDER BY last_seq LIMIT 1;
        upto := coalesce(least(upto, last), last);
    END IF;

    SELECT string_agg(record_json(seq, ts, node, tag, meta, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
               FILTER (WHERE fits AND (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                         AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
           count(*) FILTER (WHERE fits),
           -- If the byte budget cut no record off, the read examined the window to its end.
           CASE WHEN bool_and(fits) IS FALSE THEN max(seq) FILTER (WHERE fits) ELSE upto END
      INTO records, scanned, next_from_seq
      FROM (SELECT *, run <= p_bytes OR run = size AS fits  -- the first record always fits
              FROM (SELECT *, sum(size) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS run
                      FROM (SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
                             WHERE topic_id = topic AND seq > after AND seq <= upto AND NOT deleted
                            UNION ALL
                            SELECT seq, ts, node, tag, meta, data, size FROM topic_forwarded(topic, after + 1, upto)) row) row) row;
END
$$;
