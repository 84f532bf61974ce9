-- Forward one router by at most p_limit source seqs: what routers_advance cannot do for many at once (filters, cycles,
-- exactly_once, capped dests, sources with holes or spans or losses). No payload is copied.
--
-- The caller holds ADVANCE_LOCK shared, the router's cursor and the dest's head. Answers the records forwarded, where the cursor
-- stands, and why it stands still (NULL: it does not): the dest is full, and rejected a record of so many bytes.
--
-- Version 2: reserved_seq.
CREATE OR REPLACE FUNCTION router_forward(
    p_router_id bigint, p_limit bigint, p_now bigint, p_max_hops integer,
    OUT forwarded bigint, OUT cursor_seq bigint, OUT blocked text, OUT rejected bigint
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    router  routers_router;
    source  topics_topic;
    head    topics_topichead;  -- the source's
    dest    topics_topic;
    target  topics_topichead;  -- the dest's
    after   bigint;
    upto    bigint;
    told    bigint;
    cut     bigint;
    once    boolean;
    reject  boolean;
    new_bytes bigint;
    new_head  bigint;
BEGIN
    -- The source is not locked: one look at its head, all of it true at one time, and all seqs up to it are committed. The router
    -- is looked at later: what a cycle brought into the source before the look came after `cyclic` was set.
    SELECT head.* INTO head FROM topics_topichead head JOIN routers_router r ON r.source_id = head.topic_id WHERE r.id = p_router_id;
    SELECT * INTO router FROM routers_router WHERE id = p_router_id;
    SELECT * INTO source FROM topics_topic WHERE id = router.source_id;
    SELECT * INTO dest FROM topics_topic WHERE id = router.dest_id;
    SELECT seq INTO after FROM topics_cursor WHERE id = router.cursor_id;
    once := router.guarantee = 'exactly_once';
    reject := dest.discard = 'reject' AND (dest.cap_records > 0 OR dest.cap_bytes > 0);

    -- What the source lost before we came is told in the dest; what somebody deleted there is not.
    IF source.ttl_ms > 0 THEN
        cut := topic_seq_at(source.id, head.floor_seq, head.head_seq, p_now - source.ttl_ms) - 1;
        IF cut > head.floor_seq THEN  -- as topic_expire will leave it
            head.ttl_lost_seq := CASE WHEN cut > head.ragged_seq THEN cut ELSE topic_last_live(source.id, head.floor_seq, cut) END;
            head.floor_seq := cut;
        END IF;
    END IF;
    told := greatest(after, least(head.floor_seq, greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq)));
    IF told > after THEN
        PERFORM router_lose(dest.id, told - after, p_now, ARRAY[router.name]);
    END IF;
    after := greatest(after, head.floor_seq);
    upto := least(head.head_seq, after + p_limit);

    IF dest.ttl_ms > 0 AND (once OR dest.cap_records > 0 OR dest.cap_bytes > 0) THEN  -- over its time: no evidence, and takes no room
        PERFORM topic_expire(dest.id, p_now - dest.ttl_ms);
    END IF;
    SELECT * INTO target FROM topics_topichead WHERE topic_id = dest.id;

    WITH runs AS (
        SELECT * FROM router_runs(source.id, head.ragged_seq, told, after, upto, router.filter_op, router.filter_tag,
                                   CASE WHEN router.cyclic THEN p_max_hops END)),
    -- Where each record has to be looked at, each is a run of its own.
    entries AS (
        SELECT first_seq + n AS first_seq, CASE WHEN single THEN first_seq + n ELSE last_seq END AS last_seq,
               home_id, home_first_seq + n AS home_first_seq,
               home_first_seq + CASE WHEN single THEN n ELSE last_seq - first_seq END AS home_last_seq,
               keep_node AND router.preserve_node AS keep_node, keep_tag AND router.preserve_tag AS keep_tag,
               path || router.name AS path,
               CASE WHEN home_id IS NULL THEN NULL WHEN once THEN router.name ELSE stamp_router END AS stamp_router,
               CASE WHEN once THEN source.name ELSE stamp_source END AS stamp_source,
               CASE WHEN once THEN source.id ELSE stamp_source_id END AS stamp_source_id,
               CASE WHEN once THEN first_seq ELSE stamp_first_seq END + n AS stamp_first_seq
          FROM (SELECT *, home_id IS NOT NULL AND (router.cyclic OR once OR reject) AS single FROM runs) run
         CROSS JOIN LATERAL generate_series(0, CASE WHEN single THEN last_seq - first_seq ELSE 0 END) n),
    -- What of these homes the dest holds or held: a record enters a topic on a cycle once. In the order of the index that it takes.
    held AS (
        SELECT span.home_id, range_agg(int8range(span.home_first_seq, span.home_last_seq, '[]')) AS seqs
          FROM (SELECT home_id, min(home_first_seq) AS first, max(home_last_seq) AS last
                  FROM entries WHERE router.cyclic AND home_id IS NOT NULL GROUP BY home_id) home
         CROSS JOIN LATERAL (
               SELECT * FROM routers_span
                WHERE home_id = home.home_id AND topic_id = dest.id AND home_last_seq >= home.first
                  AND home_last_seq < home.last + 100000 AND home_first_seq <= home.last ORDER BY home_last_seq OFFSET 0) span
         GROUP BY span.home_id),
    -- Which source seqs this exactly_once router brought, and the dest still shows.
    sent AS (
        SELECT range_agg(int8range(stamp_first_seq + greatest(target.floor_seq + 1 - first_seq, 0),
                                   stamp_first_seq + last_seq - first_seq, '[]')) AS seqs
          FROM routers_span
         WHERE once AND topic_id = dest.id AND stamp_router = router.name AND stamp_source_id = source.id
           AND stamp_first_seq + last_seq - first_seq > after AND stamp_first_seq + last_seq - first_seq < upto + 100000
           AND stamp_first_seq <= upto AND shown AND last_seq > target.floor_seq),
    -- No record comes home, and no loss to where it came through: that is where it was told first.
    wanted AS (
        SELECT entry.* FROM (
            SELECT *, CASE WHEN router.cyclic AND home_id IS NOT NULL
                           THEN row_number() OVER (PARTITION BY home_id, home_first_seq ORDER BY first_seq) ELSE 1 END AS nth
              FROM entries) entry
          LEFT JOIN held USING (home_id) CROSS JOIN sent
         WHERE nth = 1 AND home_id IS DISTINCT FROM dest.id
           AND (held.seqs @> entry.home_first_seq) IS NOT TRUE
           AND (home_id IS NOT NULL AND sent.seqs @> entry.first_seq) IS NOT TRUE
           AND NOT (router.cyclic AND home_id IS NULL AND EXISTS (
               SELECT FROM routers_router passed WHERE passed.name = ANY (entry.path) AND passed.source_id = dest.id))),
    -- A full dest that rejects takes what fits, from the front.
    measured AS (
        SELECT *, last_seq - first_seq + 1 AS length,
               CASE WHEN reject AND home_id IS NOT NULL
                    THEN (SELECT size FROM topics_record r WHERE r.topic_id = wanted.home_id AND r.seq = wanted.home_first_seq) END AS size
          FROM wanted),
    fitting AS (
        SELECT *, reject AND home_id IS NOT NULL
                  AND (dest.cap_records > 0 AND target.count + count(size) OVER sofar > dest.cap_records
                       OR dest.cap_bytes > 0 AND target.bytes + sum(size) OVER sofar > dest.cap_bytes) AS over
          FROM measured WINDOW sofar AS (ORDER BY first_seq)),
    stop AS (
        SELECT coalesce(min(first_seq) - 1, upto) AS seq, (array_agg(size ORDER BY first_seq))[1] AS size FROM fitting WHERE over),
    -- Runs that go on where the one before ended become one span.
    marked AS (
        SELECT *, home_id IS NULL OR (home_last_seq_before + 1, home_id, keep_node, keep_tag, path, stamp_router, stamp_source_id)
                  IS DISTINCT FROM (home_first_seq, before_home_id, before_keep_node, before_keep_tag, before_path,
                                    before_stamp_router, before_stamp_source_id)
                  OR stamp_router IS NOT NULL AND stamp_first_seq IS DISTINCT FROM before_stamp_first_seq + before_length AS begins
          FROM (SELECT *, lag(home_last_seq) OVER w AS home_last_seq_before, lag(home_id) OVER w AS before_home_id,
                       lag(keep_node) OVER w AS before_keep_node, lag(keep_tag) OVER w AS before_keep_tag,
                       lag(path) OVER w AS before_path, lag(stamp_router) OVER w AS before_stamp_router,
                       lag(stamp_source_id) OVER w AS before_stamp_source_id, lag(stamp_first_seq) OVER w AS before_stamp_first_seq,
                       lag(length) OVER w AS before_length
                  FROM fitting WHERE first_seq <= (SELECT seq FROM stop) WINDOW w AS (ORDER BY first_seq)) fit),
    numbered AS (SELECT *, count(*) FILTER (WHERE begins) OVER (ORDER BY first_seq) AS piece FROM marked),
    pieces AS (
        SELECT piece, sum(length) AS length, min(home_id) AS home_id, min(home_first_seq) AS home_first_seq,
               max(home_last_seq) AS home_last_seq, bool_and(keep_node) AS keep_node, bool_and(keep_tag) AS keep_tag, min(path) AS path,
               min(stamp_router) AS stamp_router, min(stamp_source) AS stamp_source,
               min(stamp_source_id) AS stamp_source_id, min(stamp_first_seq) AS stamp_first_seq
          FROM numbered GROUP BY piece),
    placed AS (
        SELECT *, target.head_seq + sum(length) OVER (ORDER BY piece) AS last,
               CASE WHEN home_id IS NOT NULL THEN topic_range_bytes(home_id, home_first_seq, home_last_seq) END AS size
          FROM pieces),
    spans AS (
        INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag,
                                  path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
        SELECT dest.id, last - length + 1, last, home_id, home_first_seq, home_last_seq, greatest(target.last_ts, p_now), home_id IS NOT NULL,
               keep_node, keep_tag, path, stamp_router, CASE WHEN stamp_router IS NOT NULL THEN stamp_source END,
               CASE WHEN stamp_router IS NOT NULL THEN stamp_source_id END, CASE WHEN stamp_router IS NOT NULL THEN stamp_first_seq END
          FROM placed)
    SELECT coalesce(sum(length) FILTER (WHERE home_id IS NOT NULL), 0), coalesce(sum(size), 0),
           coalesce(max(last), target.head_seq), (SELECT seq FROM stop), (SELECT size FROM stop)
      INTO forwarded, new_bytes, new_head, cursor_seq, rejected
      FROM placed;

    UPDATE topics_topichead
       SET head_seq = new_head, ragged_seq = new_head, count = count + forwarded, bytes = bytes + new_bytes,
           last_ts = greatest(last_ts, p_now), reserved_seq = topic_reserve(new_head, reserved_seq)
     WHERE topic_id = dest.id AND head_seq < new_head;
    IF target.count = 0 AND new_head > target.floor_seq THEN  -- nothing was live: a loss at the front lies below the floor
        PERFORM topic_shrink(dest.id, target.floor_seq, 0, 0);
    END IF;
    IF dest.discard = 'old' AND (dest.cap_records > 0 OR dest.cap_bytes > 0) THEN
        IF dest.ttl_ms > 0 THEN  -- what is over its time was not evicted
            PERFORM topic_expire(dest.id, p_now - dest.ttl_ms);
        END IF;
        PERFORM topic_evict(dest.id, dest.cap_records, dest.cap_bytes);
    END IF;
    IF cursor_seq < upto THEN
        SELECT format('dest %s is full: it holds %s records and %s bytes and rejects more', dest.name, h.count, h.bytes)
          INTO blocked FROM topics_topichead h WHERE topic_id = dest.id;
    END IF;
END
$$;
