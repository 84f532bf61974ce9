-- Deletes those of these seqs, in any order, that a topic shows now. Returns the number of deleted records. If p_version is not
-- the current version, it rolls back the transaction. p_expired_ts is as in topic_expire.
--
-- Like topic_delete_match, it marks own records before it locks the head, and counts those above the floor that it finds then.
-- Spans change only under the head's lock, so it looks for their pieces under this lock.
CREATE OR REPLACE FUNCTION topic_delete_seqs(
    p_topic_id bigint, p_version bigint, p_seqs bigint[], p_expired_ts bigint
) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head    topics_topichead;
    cut     bigint;  -- records of spans up to here were lost before the call
    seqs    bigint[];
    sizes   integer[];
    piece   record;
    deleted bigint;
    bytes   bigint;
    last    bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7003, (p_topic_id % 2147483648)::integer);
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    SELECT array_agg(seq), array_agg(size) INTO seqs, sizes
      FROM topic_mark(p_topic_id, ARRAY(SELECT seq FROM unnest(p_seqs) seq WHERE seq > head.floor_seq AND seq <= head.head_seq),
                      p_expired_ts);

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
    IF head.floor_seq < head.holes_seq THEN  -- no span is above holes_seq
        FOR piece IN
            SELECT found.last_seq, hits, records, found.last, (
                   SELECT sum(size) FROM unnest(hits) run
                    CROSS JOIN LATERAL (SELECT size FROM topics_record
                                         WHERE topic_id = home_id AND seq >= lower(run) AND seq < upper(run) OFFSET 0) home) AS bytes
              FROM (SELECT span.last_seq, home_id, count(DISTINCT asked.seq) AS records, max(asked.seq) AS last,
                           range_agg(int8range(home_first_seq + asked.seq - first_seq, home_first_seq + asked.seq - first_seq, '[]')) AS hits
                      FROM unnest(p_seqs) asked (seq)
                     CROSS JOIN LATERAL topic_spans(p_topic_id, asked.seq, asked.seq) span
                     WHERE asked.seq > cut AND asked.seq <= head.holes_seq AND shown
                     GROUP BY span.last_seq, home_id) found
        LOOP
            PERFORM span_hide(p_topic_id, piece.last_seq, piece.hits, false);
            deleted := deleted + piece.records;
            bytes := bytes + piece.bytes;
            last := greatest(last, piece.last);
        END LOOP;
    END IF;
    IF deleted > 0 THEN
        PERFORM topic_shrink(p_topic_id, head.floor_seq, deleted, bytes, last);
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- last, because the search for the first live record skips marked ones
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN deleted;
END
$$;
