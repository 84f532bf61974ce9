-- Append to any number of topics under conditions: an idempotency key, an expected head, the caps of a topic that rejects, a sealed
-- topic. Each append is judged by itself: a refused append writes nothing and does not affect the others.
--
-- In:  p_ids has the topics, each once and in order. p_of … p_cap_bytes have one entry per append: the topic, the version known to
--      the caller, the numbers of records and bytes, the conditions, and the caps of a topic that rejects (else NULL).
--      p_expired: records of a topic that rejects are expired below this time (NULL: no topic has a TTL).
--      p_data … p_ns have one entry per record: p_ns is the number of the append (1 is the first), p_places the place in the append,
--      and p_runs the bytes of the append up to the record's end. A list of NULLs alone may be empty.
--      p_record_keys, p_record_digests: one entry per record, if an append has a key for each record. Else NULL.
--      p_unique: one entry per append: whether the topic takes one live record per tag. NULL: no topic does. Callers of version 0.3.0
--      send none of these three.
-- Out: the verdict on each append, with the head, records and bytes of its topic before the call:
--        done                 the append has first_seq to last_seq
--        kept                 the key names the append of first_seq to last_seq, which carried the same records. Without seqs: each
--                             record has a known key
--        other                the key names that append, and it carried other records. Without seqs: see `differs`
--        sealed, head, full   the append was refused: the topic is sealed, its head is not the expected one, or it lacks room
--      An append has no row if its topic has another version, or if the append would fit only without an append before it, or
--      without expired records that this call left (topic_expire). The caller sends such an append again.
--      An append with a key for each record, or to a topic with unique tags, also has a row for each known record. `head_seq` is the
--      place of the record:
--        known                the key names the record first_seq, or this live record has the tag. This call writes no record
--        differs              the key names the append of first_seq to last_seq, which carried another record
--
-- The caller sends each key, and each tag of a topic with unique tags, in at most one append, and there once. An append that expects
-- a head is the first to its topic.
CREATE OR REPLACE FUNCTION topic_append_judged(
    p_now bigint, p_volatile boolean, p_ids bigint[],
    p_of bigint[], p_versions bigint[], p_counts bigint[], p_bytes bigint[],
    p_heads json, p_keys json, p_digests json, p_since bigint[],
    p_sealed boolean[], p_cap_records bigint[], p_cap_bytes bigint[], p_expired bigint[],
    p_data json, p_tags json, p_nodes json, p_metas json, p_places bigint[], p_sizes int[], p_runs bigint[], p_ns bigint[],
    p_record_keys json DEFAULT NULL, p_record_digests json DEFAULT NULL, p_unique boolean[] DEFAULT NULL)
RETURNS TABLE (n bigint, verdict text, first_seq bigint, last_seq bigint, head_seq bigint, records bigint, bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- Each has an entry for each record: the first and last seq under its key, and whether they carried another record. NULL: the
    -- key is not known, and no live record has the tag.
    firsts bigint[];
    lasts bigint[];
    differs boolean[];
    tagged bigint[];  -- the append, if a live record has the record's tag. Else NULL
    others bigint[];  -- the appends that have a record that differs
BEGIN
    -- A statement of its own: the next statement sees all that the earlier holders of these locks have committed. Locks are taken in
    -- the order of ids, so two calls cannot deadlock.
    PERFORM FROM unnest(p_ids) AS wanted (id)
      CROSS JOIN LATERAL (SELECT FROM topics_topichead WHERE topic_id = wanted.id LIMIT 1 FOR UPDATE) head;
    -- Expired records make room first: no reader sees them any more.
    IF p_expired IS NOT NULL THEN
        PERFORM topic_expire(asked.topic_id, asked.expired)
           FROM (SELECT DISTINCT topic_id, expired FROM unnest(p_of, p_expired) AS asked (topic_id, expired)) asked
          WHERE asked.expired IS NOT NULL;
    END IF;
    IF p_record_keys IS NOT NULL OR p_unique IS NOT NULL THEN
        SELECT array_agg(coalesce(kept.first_seq, held.seq) ORDER BY new.i), array_agg(coalesce(kept.last_seq, held.seq) ORDER BY new.i),
               array_agg(coalesce(kept.differs, CASE WHEN held.seq IS NOT NULL THEN false END) ORDER BY new.i),
               array_agg(new.n) FILTER (WHERE kept.differs),
               array_agg(CASE WHEN kept.first_seq IS NULL AND held.seq IS NOT NULL THEN new.n END ORDER BY new.i)
          INTO firsts, lasts, differs, others, tagged
          FROM ROWS FROM (json_array_elements_text(p_record_keys), json_array_elements_text(p_record_digests), unnest(p_ns),
                          json_array_elements_text(p_tags))
                    WITH ORDINALITY AS new (key, digest, n, tag, i)
          LEFT JOIN LATERAL (  -- `+ 0` and LIMIT as below
               SELECT key.first_seq, key.last_seq,
                      CASE WHEN octet_length(key.digest) <> octet_length(new.digest::bytea)
                           THEN key.first_seq < key.last_seq
                                OR NOT same_records(p_of[new.n], key.first_seq, key.last_seq, key.digest, p_data, p_tags, p_nodes,
                                                    p_metas, p_ns, new.n, new.i)
                           ELSE coalesce(key.digest <> new.digest::bytea, key.first_seq < key.last_seq) END AS differs
                 FROM topics_idempotencykey key
                WHERE key.topic_id = p_of[new.n] AND key.key = new.key AND key.ts + 0 > p_since[new.n]
                LIMIT 1) kept ON true
          LEFT JOIN LATERAL (  -- all records of a tag are gone, or all but the last one. So one probe of the index tells
               SELECT last.seq
                 FROM (SELECT seq, deleted FROM topics_record
                        WHERE p_unique[new.n] AND topic_id = p_of[new.n] AND tag = new.tag
                        ORDER BY seq DESC LIMIT 1) last
                 JOIN topics_topichead head ON head.topic_id = p_of[new.n]
                WHERE NOT last.deleted AND last.seq > head.floor_seq) held ON true;
        RETURN QUERY
        SELECT record.n, CASE WHEN record.differs THEN 'differs' ELSE 'known' END, record.first_seq, record.last_seq,
               record.place, 0::bigint, 0::bigint
          FROM unnest(p_ns, p_places, firsts, lasts, differs) AS record (n, place, first_seq, last_seq, differs)
         WHERE record.differs IS NOT NULL;
        -- From here on, the arguments describe the records that this call may write. A known record belongs to no append.
        IF FOUND THEN
            SELECT array_agg(asked.count - coalesce(kept.count, 0) ORDER BY asked.n),
                   array_agg(asked.bytes - coalesce(kept.bytes, 0) ORDER BY asked.n)
              INTO p_counts, p_bytes
              FROM unnest(p_counts, p_bytes) WITH ORDINALITY AS asked (count, bytes, n)
              LEFT JOIN (SELECT record.n, count(*) AS count, sum(record.size) AS bytes
                           FROM unnest(p_ns, p_sizes, differs) AS record (n, size, differs)
                          WHERE record.differs IS NOT NULL
                          GROUP BY record.n) kept ON kept.n = asked.n;
            SELECT array_agg(CASE WHEN record.differs IS NULL THEN record.n END ORDER BY record.i),
                   array_agg(record.place ORDER BY record.i), array_agg(record.run ORDER BY record.i)
              INTO p_ns, p_places, p_runs
              FROM (SELECT record.*, count(*) FILTER (WHERE record.differs IS NULL) OVER so_far AS place,
                           sum(record.size) FILTER (WHERE record.differs IS NULL) OVER so_far AS run
                      FROM unnest(p_ns, p_sizes, differs) WITH ORDINALITY AS record (n, size, differs, i)
                    WINDOW so_far AS (PARTITION BY record.n ORDER BY record.i ROWS UNBOUNDED PRECEDING)) record;
        END IF;
    END IF;
    RETURN QUERY
    WITH asked AS (
        SELECT * FROM ROWS FROM (unnest(p_of), unnest(p_versions), unnest(p_counts), unnest(p_bytes),
                                 json_array_elements_text(p_heads), json_array_elements_text(p_keys),
                                 json_array_elements_text(p_digests), unnest(p_since), unnest(p_sealed),
                                 unnest(p_cap_records), unnest(p_cap_bytes))
                 WITH ORDINALITY AS asked (topic_id, version, count, bytes, expected_head, key, digest, since, sealed,
                                           cap_records, cap_bytes, n)),
    heads AS MATERIALIZED (
        SELECT head.*
          FROM unnest(p_ids) AS wanted (id)
         CROSS JOIN LATERAL (SELECT * FROM topics_topichead WHERE topic_id = wanted.id LIMIT 1) head),
    -- A key is looked up by the primary key. `+ 0` and LIMIT keep a planner that expects few keys from the index on their age, in
    -- which it would read all keys that are new enough.
    verdicts AS (
        SELECT asked.n, asked.topic_id, asked.count, asked.bytes, asked.key, asked.digest, asked.cap_records, asked.cap_bytes,
               kept.first_seq, kept.last_seq, head.head_seq, head.count AS held_records, head.bytes AS held_bytes, head.total,
               head.era, greatest(head.last_ts, p_now) AS ts,
               CASE WHEN kept.is_same THEN 'kept'
                    WHEN NOT kept.is_same OR asked.n = ANY (others) THEN 'other'
                    WHEN asked.count = 0 THEN 'kept'
                    WHEN asked.sealed THEN 'sealed'
                    WHEN asked.expected_head::bigint <> head.head_seq THEN 'head'
                    WHEN head.count + asked.count > asked.cap_records OR head.bytes + asked.bytes > asked.cap_bytes THEN 'full'
                    ELSE 'done' END AS verdict
          FROM asked
          JOIN heads head ON head.topic_id = asked.topic_id AND head.version = asked.version
          LEFT JOIN LATERAL (
               SELECT key.first_seq, key.last_seq,
                      CASE WHEN octet_length(key.digest) <> octet_length(asked.digest::bytea)
                           THEN same_records(asked.topic_id, key.first_seq, key.last_seq, key.digest, p_data, p_tags, p_nodes, p_metas,
                                             p_ns, asked.n)
                           ELSE key.digest IS NULL OR key.digest = asked.digest::bytea END AS is_same
                 FROM topics_idempotencykey key
                WHERE key.topic_id = asked.topic_id AND key.key = asked.key AND key.ts + 0 > asked.since
                LIMIT 1) kept ON true),
    -- The planner expects half of the rows for a boolean, and one row for a comparison with a verdict.
    judged AS MATERIALIZED (SELECT verdicts.*, verdicts.verdict = 'done' AS fits FROM verdicts),
    -- `upto` and `upto_bytes` run through the appends of a topic in their order, each included. They only grow, so the appends beyond
    -- a cap are the last ones of their topic.
    fit AS (
        SELECT *
          FROM (SELECT judged.*, sum(judged.count) OVER so_far::bigint AS upto, sum(judged.bytes) OVER so_far::bigint AS upto_bytes
                  FROM judged
                 WHERE judged.fits
                WINDOW so_far AS (PARTITION BY judged.topic_id ORDER BY judged.n ROWS UNBOUNDED PRECEDING)) done
         WHERE (done.held_records + done.upto > done.cap_records OR done.held_bytes + done.upto_bytes > done.cap_bytes) IS NOT TRUE),
    moved AS (
        UPDATE topics_topichead head
           SET head_seq = head.head_seq + batch.count,
               era = topic_era(head.head_seq + batch.count),
               unsettled = true,
               count = head.count + batch.count,
               bytes = head.bytes + batch.bytes,
               total = head.total + batch.bytes,
               last_ts = greatest(head.last_ts, p_now),
               reserved_seq = topic_reserve(head.head_seq + batch.count, head.reserved_seq),
               holes_seq = CASE WHEN p_volatile THEN head.head_seq + batch.count ELSE head.holes_seq END,
               volatile_seq = CASE WHEN p_volatile THEN head.head_seq + batch.count ELSE head.volatile_seq END
          FROM (SELECT fit.topic_id, fit.era, sum(fit.count)::bigint AS count, sum(fit.bytes)::bigint AS bytes
                  FROM fit GROUP BY fit.topic_id, fit.era) batch
         WHERE head.topic_id >= batch.topic_id AND (head.topic_id, head.era) <= (batch.topic_id, batch.era)),
    written AS (
        INSERT INTO topics_record (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
        SELECT fit.topic_id, fit.head_seq + fit.upto - fit.count + new.place, fit.ts,
               fit.total + fit.upto_bytes - fit.bytes + new.run, new.size, p_volatile,
               new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
          FROM ROWS FROM (json_array_elements(p_data), json_array_elements_text(p_tags), json_array_elements_text(p_nodes),
                          json_array_elements(p_metas), unnest(p_places), unnest(p_sizes), unnest(p_runs), unnest(p_ns))
                   AS new (data, tag, node, meta, place, size, run, n)
          JOIN fit ON fit.n = new.n),
    remembered AS (
        INSERT INTO topics_idempotencykey AS remembered (topic_id, key, first_seq, last_seq, ts, digest)
        SELECT fit.topic_id, fit.key, fit.head_seq + fit.upto - fit.count + 1, fit.head_seq + fit.upto, p_now, fit.digest::bytea
          FROM fit
         WHERE fit.key IS NOT NULL
        UNION ALL
        SELECT fit.topic_id, new.key, seq, seq, p_now, new.digest::bytea
          FROM ROWS FROM (json_array_elements_text(p_record_keys), json_array_elements_text(p_record_digests),
                          unnest(p_places), unnest(p_ns))
                   AS new (key, digest, place, n)
          JOIN fit ON fit.n = new.n
         CROSS JOIN LATERAL (SELECT fit.head_seq + fit.upto - fit.count + new.place AS seq) given
         WHERE p_record_keys IS NOT NULL AND new.key IS NOT NULL
        UNION ALL  -- a repeated append gets the same answer, also when the record of the tag is gone
        SELECT judged.topic_id, new.key, new.seq, new.seq, p_now, new.digest::bytea
          FROM ROWS FROM (json_array_elements_text(p_record_keys), json_array_elements_text(p_record_digests),
                          unnest(firsts), unnest(tagged))
                   AS new (key, digest, seq, n)
          JOIN judged ON judged.n = new.n
         WHERE p_record_keys IS NOT NULL AND new.key IS NOT NULL
           AND (judged.verdict = 'kept' OR judged.n IN (SELECT n FROM fit))
        ON CONFLICT (topic_id, key) DO UPDATE
           SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts, digest = excluded.digest)
    SELECT fit.n, fit.verdict, fit.head_seq + fit.upto - fit.count + 1, fit.head_seq + fit.upto,
           fit.head_seq, fit.held_records, fit.held_bytes
      FROM fit
    UNION ALL
    SELECT judged.n, judged.verdict, judged.first_seq, judged.last_seq, judged.head_seq, judged.held_records, judged.held_bytes
      FROM judged
     WHERE NOT judged.fits
       AND (judged.verdict <> 'full'
            OR NOT (SELECT topic_has_expired(head, p_expired[judged.n])
                      FROM topics_topichead head WHERE head.topic_id = judged.topic_id LIMIT 1));
END
$$;
