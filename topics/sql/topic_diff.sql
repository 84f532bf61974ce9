-- One read of a topic (contract.md section 4): the window of the next p_limit live seqs, rendered, with all that the answer
-- says about the topic. STABLE, so every query in it sees one snapshot. No row: absent, or p_version is not the current one.
--
-- Above ragged_seq a window is a plain range of the primary key. Below, it may hold deleted records and spans: at most p_limit
-- spans are taken by key, then the home rows of each (OFFSET 0 keeps the join a loop over the index: 0.4 ms, not 900).
-- p_nodes: own nodes, dropped after the window is fixed. p_match: a tag (Eq) or its prefix (Glob). p_expired_ts: older is gone.
CREATE OR REPLACE FUNCTION topic_diff(
    p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text,
    p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint,
    OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint,
    OUT lost text, OUT gap_to bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    head  topics_topichead;
    after bigint;
    upto  bigint;
    base  bigint;
    cut   bigint;
    loss  record;
    live  bigint;
BEGIN
    SELECT * INTO head FROM topics_topichead h WHERE h.topic_id = p_topic_id AND h.version = p_version;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        cut := topic_seq_at(p_topic_id, head.floor_seq, head.head_seq, p_expired_ts) - 1;
        IF cut > head.floor_seq THEN  -- as topic_expire will leave it
            head.ttl_lost_seq := CASE WHEN cut > head.ragged_seq THEN cut ELSE topic_last_live(p_topic_id, head.floor_seq, cut) END;
            live := CASE WHEN cut >= head.ragged_seq THEN cut ELSE coalesce(topic_first_live(p_topic_id, cut) - 1, head.head_seq) END;
            head.restart_lost_seq := greatest(head.restart_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, live, 'restart'));
            head.source_lost_seq := greatest(head.source_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, live, 'source_trim'));
            head.floor_seq := live;
            head.count := NULL;  -- as of before
        END IF;
        cut := NULL;
    END IF;
    head_seq := head.head_seq;
    earliest_seq := head.floor_seq + 1;
    after := greatest(p_from_seq, head.floor_seq);
    IF p_from_seq > head.head_seq THEN
        lost := 'recreated';
        after := head.floor_seq;
    ELSIF greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq, head.source_lost_seq) > p_from_seq THEN
        SELECT CASE WHEN count(*) > 1 THEN 'mixed' ELSE min(why) END INTO lost
          FROM (VALUES ('cap', head.cap_lost_seq), ('ttl', head.ttl_lost_seq),
                       ('restart', head.restart_lost_seq), ('source_trim', head.source_lost_seq)) loss (why, seq)
         WHERE seq > p_from_seq;
    END IF;
    gap_to := head.floor_seq;
    upto := least(after + p_limit, head.head_seq);

    IF after >= head.ragged_seq THEN
        SELECT total - size + p_bytes INTO base FROM topics_record_logged WHERE topic_id = p_topic_id AND seq = after + 1;
        SELECT string_agg(record_json(seq, ts, node, tag, meta::text, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
                   FILTER (WHERE (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                             AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
               count(*), coalesce(max(seq), upto)
          INTO records, scanned, next_from_seq
          FROM topics_record_logged
         WHERE topic_id = p_topic_id AND seq > after AND seq <= upto
           AND (total <= base OR seq = after + 1);
        RETURN NEXT;
        RETURN;
    END IF;

    -- What was lost before it could be read (topic_last_loss.sql) is told where it is missing: the window ends before, or starts
    -- behind it.
    SELECT first_seq, last_seq, path INTO loss FROM routers_span
     WHERE topic_id = p_topic_id AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
    IF FOUND THEN
        live := topic_first_live(p_topic_id, after);
        IF lost IS NULL AND (live IS NULL OR live > loss.first_seq) THEN
            lost := CASE WHEN loss.path = '{}' THEN 'restart' ELSE 'source_trim' END;
            gap_to := loss.last_seq;
            after := loss.last_seq;
            SELECT first_seq INTO loss FROM routers_span
             WHERE topic_id = p_topic_id AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
        END IF;
    END IF;
    live := least(head.head_seq, loss.first_seq - 1);  -- the window's end at the latest
    IF head.count = head.head_seq - earliest_seq + 1 THEN
        upto := least(after + p_limit, live);
    ELSE  -- holes: the p_limit-th live seq
        SELECT last_seq - (run - p_limit) INTO upto
          FROM (SELECT last_seq, sum(length) OVER (ORDER BY last_seq) AS run
                  FROM ((SELECT seq AS last_seq, 1 AS length FROM topics_record
                          WHERE topic_id = p_topic_id AND seq > after AND seq <= live AND NOT deleted ORDER BY seq LIMIT p_limit)
                        UNION ALL
                        (SELECT last_seq, last_seq - greatest(first_seq, after + 1) + 1 FROM routers_span
                          WHERE topic_id = p_topic_id AND last_seq > after AND routers_span.shown ORDER BY last_seq LIMIT p_limit)) entry) entry
         WHERE run >= p_limit ORDER BY last_seq LIMIT 1;
        upto := coalesce(least(upto, live), live);
    END IF;

    SELECT string_agg(record_json(seq, ts, node, tag, meta, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
               FILTER (WHERE (run <= p_bytes OR run = size)
                         AND (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                         AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
           count(*) FILTER (WHERE run <= p_bytes OR run = size), max(seq) FILTER (WHERE run <= p_bytes OR run = size), max(seq)
      INTO records, scanned, next_from_seq, cut
      FROM (SELECT *, sum(size) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS run FROM (
                SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
                 WHERE topic_id = p_topic_id AND seq > after AND seq <= upto AND NOT deleted
                UNION ALL
                SELECT span.first_seq + home.seq - span.home_first_seq, span.ts,
                       CASE WHEN span.keep_node THEN home.node END, CASE WHEN span.keep_tag THEN home.tag END,
                       CASE WHEN span.stamp_router IS NULL THEN home.meta::text
                            ELSE stamped_meta(home.meta, span.stamp_router, span.stamp_source, span.stamp_source_id,
                                              span.stamp_first_seq + home.seq - span.home_first_seq) END,
                       home.data, home.size
                  FROM (SELECT * FROM routers_span
                         WHERE topic_id = p_topic_id AND last_seq > after AND routers_span.shown ORDER BY last_seq LIMIT p_limit) span
                 CROSS JOIN LATERAL (
                     SELECT seq, node, tag, meta, data, size FROM topics_record
                      WHERE topic_id = span.home_id
                        AND seq >= span.home_first_seq + greatest(after + 1 - span.first_seq, 0)
                        AND seq <= span.home_last_seq - greatest(span.last_seq - upto, 0)
                     OFFSET 0) home
                 WHERE span.first_seq <= upto) row) row;
    IF next_from_seq IS NOT DISTINCT FROM cut THEN
        next_from_seq := upto;  -- nothing was cut off by the byte budget: the window was examined to its end
    END IF;
    RETURN NEXT;
END
$$;
