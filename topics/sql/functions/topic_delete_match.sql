-- Deletes the records with a tag that a topic shows now below p_before_seq (NULL: all). p_op 'Eq' matches the tag p_tag. 'Glob'
-- matches tags that begin with p_tag: tags below p_tag_end, which is NULL if no such bound exists. Returns the number of
-- deleted records. If p_version is not the current version, it rolls back the transaction.
--
-- The function marks own records, and finds matches in spans by the tags of their homes, without the head's lock. So a large
-- delete does not hold up appends. Then it locks the head and counts. An eviction or expiry since then has counted the records
-- below the floor that it finds now (docs/concurrency.md). It cuts the spans that contain matches.
--
-- Expiry comes last, when the count is without the marked records. It looks for the first live record and skips marked ones. If
-- it came first, it would leave marked records in the count, or find no live record at all.
CREATE OR REPLACE FUNCTION topic_delete_match(
    p_topic_id bigint, p_version bigint, p_before_seq bigint, p_op text, p_tag text, p_tag_end text, p_expired_ts bigint
) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head    topics_topichead;
    upto    bigint;
    cut     bigint;  -- records of spans up to here were lost before the call
    tagged  text := CASE WHEN p_op = 'Eq' THEN 'tag = $4' WHEN p_tag_end IS NULL THEN 'tag >= $4' ELSE 'tag >= $4 AND tag < $5' END;
    seqs    bigint[];
    sizes   integer[];
    spans   bigint[];  -- their last_seq, and the home seqs that match
    matches int8multirange[];
    piece   record;
    deleted bigint;
    bytes   bigint;
    last    bigint;
BEGIN
    -- One delete by tag at a time in a topic, because two would lock the same rows in different orders. Reclaim skips the topic.
    PERFORM pg_advisory_xact_lock(7003, (p_topic_id % 2147483648)::integer);
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    upto := least(p_before_seq - 1, head.head_seq);
    IF p_op = 'Eq' THEN  -- one comparison of tag and seq leaves the planner the index on tags alone, whatever it estimates
        WITH marked AS (
            UPDATE topics_record SET deleted = true
             WHERE topic_id = p_topic_id AND tag = p_tag AND (tag, seq) > (p_tag, head.floor_seq) AND (tag, seq) <= (p_tag, upto)
               AND NOT deleted AND (p_expired_ts IS NULL OR ts >= p_expired_ts)
            RETURNING seq, size)
        SELECT array_agg(seq), array_agg(size) INTO seqs, sizes FROM marked;
    ELSE  -- PostgreSQL plans for this prefix, because it can match one tag or all
        EXECUTE 'WITH marked AS (
                     UPDATE topics_record SET deleted = true
                      WHERE topic_id = $1 AND seq > $2 AND seq <= $3 AND NOT deleted AND ' || tagged || '
                        AND ($6 IS NULL OR ts >= $6)
                     RETURNING seq, size)
                 SELECT array_agg(seq), array_agg(size) FROM marked'
           INTO seqs, sizes USING p_topic_id, head.floor_seq, upto, p_tag, p_tag_end, p_expired_ts;
    END IF;

    IF EXISTS (SELECT FROM topic_spans(p_topic_id, head.floor_seq + 1, upto)) THEN
        EXECUTE 'SELECT array_agg(last_seq), array_agg(hits) FROM (
                     SELECT last_seq, range_agg(int8range(home.seq, home.seq, ''[]'')) AS hits
                       FROM (SELECT *, home_last_seq - greatest(last_seq - $3, 0) AS until
                               FROM topic_spans($1, $2 + 1, $3) WHERE shown AND keep_tag) span
                      CROSS JOIN LATERAL (SELECT seq FROM topics_record
                                           WHERE topic_id = span.home_id AND seq >= span.home_first_seq AND seq <= span.until
                                             AND ' || tagged || '
                                          OFFSET 0) home
                      GROUP BY last_seq) found'
           INTO spans, matches USING p_topic_id, head.floor_seq, upto, p_tag, p_tag_end;
    END IF;

    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    cut := head.floor_seq;
    IF p_expired_ts IS NOT NULL THEN  -- an expired record was lost, not deleted: this delete marked none of them
        cut := topic_seq_at(p_topic_id, head.floor_seq, head.head_seq, p_expired_ts) - 1;
    END IF;
    SELECT count(*), coalesce(sum(size), 0), max(seq) INTO deleted, bytes, last
      FROM unnest(seqs, sizes) marked (seq, size) WHERE seq > head.floor_seq;
    FOR piece IN
        SELECT span.last_seq, hits, count(*) AS records, sum(home.size) AS bytes,
               max(span.last_seq - (home_last_seq - home.seq)) AS last
          FROM (SELECT span.*, hits * int8multirange(int8range(home_first_seq + greatest(cut + 1 - first_seq, 0),
                                                               home_last_seq, '[]')) AS hits
                  FROM unnest(spans, matches) found (last_seq, hits)
                  JOIN topics_span span ON span.topic_id = p_topic_id AND span.last_seq = found.last_seq
                 WHERE span.last_seq > cut) span
         CROSS JOIN LATERAL unnest(hits) run
         CROSS JOIN LATERAL (SELECT seq, size FROM topics_record
                              WHERE topic_id = home_id AND seq >= lower(run) AND seq < upper(run) OFFSET 0) home
         GROUP BY span.last_seq, hits
    LOOP
        PERFORM span_hide(p_topic_id, piece.last_seq, piece.hits, false);
        deleted := deleted + piece.records;
        bytes := bytes + piece.bytes;
        last := greatest(last, piece.last);
    END LOOP;
    IF deleted > 0 THEN
        PERFORM topic_shrink(p_topic_id, head.floor_seq, deleted, bytes, last);
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN NEXT deleted;
END
$$;
