--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: reclaim_chunk(bigint, bigint, bigint, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reclaim_chunk(p_topic_id bigint, p_first bigint, p_limit bigint, p_remove boolean, OUT examined bigint, OUT free bigint, OUT last_seq bigint, OUT floor_seq bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    below   bigint;
    kept    boolean := EXISTS (SELECT FROM routers_router WHERE dest_id = p_topic_id AND cyclic);
    own     bigint[];
    pieces  bigint[];
    covered int8multirange;
BEGIN
    SELECT h.floor_seq INTO below FROM topics_topichead h WHERE h.topic_id = p_topic_id;
    below := coalesce(below, 1::bigint << 62);
    -- Bounded in bytes, for large records, and in seqs, so that what may cover them is.
    SELECT count(*), max(seq), coalesce(array_agg(seq) FILTER (WHERE home), '{}'), coalesce(array_agg(seq) FILTER (WHERE NOT home), '{}')
      INTO examined, last_seq, own, pieces
      FROM (SELECT seq, home, min(seq) OVER () AS first, sum(size) OVER (ORDER BY seq) - size AS before
              FROM ((SELECT seq, size, true AS home FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= p_first AND seq <= below ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT seq, size, true FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= greatest(p_first, below + 1) AND deleted ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT s.last_seq, 0, false FROM routers_span s
                      WHERE topic_id = p_topic_id AND s.last_seq >= p_first AND s.last_seq <= below ORDER BY s.last_seq LIMIT p_limit)) entry
             ORDER BY seq LIMIT p_limit) entry
     WHERE before < 33554432 AND seq < first + 50000;
    covered := reclaim_covered(p_topic_id, own[1], own[cardinality(own)]);
    own := ARRAY(SELECT seq FROM unnest(own) seq WHERE NOT covered @> seq);
    pieces := ARRAY(SELECT s.last_seq FROM routers_span s
                     WHERE topic_id = p_topic_id AND s.last_seq = ANY (pieces)
                       AND NOT (kept AND reclaim_stored(home_id, home_first_seq, home_last_seq))
                       AND NOT (home_id IS NULL AND EXISTS (
                           SELECT FROM topics_cursor c WHERE c.topic_id = p_topic_id AND c.kind = 'router' AND c.seq < s.last_seq)));
    IF p_remove THEN
        DELETE FROM topics_record WHERE topic_id = p_topic_id AND seq = ANY (own);
        DELETE FROM routers_span s WHERE topic_id = p_topic_id AND s.last_seq = ANY (pieces);
    END IF;
    free := cardinality(own) + cardinality(pieces);
    floor_seq := below;
END
$$;


--
-- Name: reclaim_covered(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reclaim_covered(p_home_id bigint, p_first bigint, p_last bigint) RETURNS int8multirange
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(range_agg(int8range(home_first_seq + greatest(floor_seq + 1 - first_seq, 0), home_last_seq, '[]')), '{}')
      FROM (SELECT * FROM routers_span
             WHERE home_id = p_home_id AND home_last_seq >= p_first AND home_last_seq < p_last + 1000
            UNION ALL
            SELECT * FROM routers_span
             WHERE home_id = p_home_id AND home_last_seq >= p_last + 1000 AND home_last_seq < p_last + 100000
               AND home_last_seq - home_first_seq >= 1000) span
      JOIN topics_topichead USING (topic_id)  -- a deleted topic shows nothing
     WHERE shown AND home_first_seq <= p_last AND last_seq > floor_seq
$$;


--
-- Name: reclaim_stored(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reclaim_stored(p_home_id bigint, p_first bigint, p_last bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM topics_record WHERE topic_id = p_home_id AND seq >= p_first AND seq <= p_last)
$$;


--
-- Name: record_json(bigint, bigint, text, text, text, json, boolean, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_json(seq bigint, ts bigint, node text, tag text, meta text, data json, with_tags boolean, with_meta boolean) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT '{"$seq":' || seq || ',"$ts":' || ts
        || CASE WHEN node IS NULL THEN '' ELSE ',"$node":' || to_json(node) END
        || CASE WHEN with_tags AND tag IS NOT NULL THEN ',"$tag":' || to_json(tag) ELSE '' END
        || CASE WHEN with_meta AND meta IS NOT NULL THEN ',"meta":' || meta ELSE '' END
        || ',"data":' || data || '}'
$_$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: routers_router; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.routers_router (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    preserve_node boolean NOT NULL,
    preserve_tag boolean NOT NULL,
    filter_op character varying(4),
    filter_tag text COLLATE pg_catalog."C",
    allow_cycle boolean NOT NULL,
    allow_fan_in boolean NOT NULL,
    cyclic boolean NOT NULL,
    guarantee character varying(16) NOT NULL,
    state character varying(8) NOT NULL,
    last_error text,
    errors_total bigint NOT NULL,
    retry_ts bigint NOT NULL,
    retry_ms bigint NOT NULL,
    retry_bytes bigint,
    created_ts bigint NOT NULL,
    cursor_id bigint NOT NULL,
    dest_id bigint NOT NULL,
    source_id bigint NOT NULL
);


--
-- Name: router_due(public.routers_router, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_due(router public.routers_router, p_now bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT router.state = 'running' OR router.state = 'blocked' AND (router.retry_ts <= p_now OR EXISTS (
        SELECT FROM topics_topic dest JOIN topics_topichead head ON head.topic_id = dest.id
         WHERE dest.id = router.dest_id AND router.retry_bytes IS NOT NULL
           AND (dest.discard = 'old' OR (dest.cap_records = 0 OR head.count < dest.cap_records)
                                    AND (dest.cap_bytes = 0 OR head.bytes + router.retry_bytes <= dest.cap_bytes))))
$$;


--
-- Name: router_forward(bigint, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_forward(p_router_id bigint, p_limit bigint, p_now bigint, p_max_hops integer, OUT forwarded bigint, OUT cursor_seq bigint, OUT blocked text, OUT rejected bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
    -- What of these homes the dest holds or held: a record enters a topic on a cycle once.
    held AS (
        SELECT span.home_id, range_agg(int8range(span.home_first_seq, span.home_last_seq, '[]')) AS seqs
          FROM (SELECT home_id, min(home_first_seq) AS first, max(home_last_seq) AS last
                  FROM entries WHERE router.cyclic AND home_id IS NOT NULL GROUP BY home_id) home
         CROSS JOIN LATERAL (
               SELECT * FROM routers_span
                WHERE home_id = home.home_id AND topic_id = dest.id AND home_last_seq >= home.first
                  AND home_last_seq < home.last + 100000 AND home_first_seq <= home.last OFFSET 0) span
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
       SET head_seq = new_head, ragged_seq = new_head, count = count + forwarded, bytes = bytes + new_bytes, last_ts = greatest(last_ts, p_now)
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


--
-- Name: router_lose(bigint, bigint, bigint, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_lose(p_dest_id bigint, p_lost bigint, p_now bigint, p_path text[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
    SELECT topic_id, head_seq + 1, head_seq + p_lost, NULL, 0, 0, greatest(last_ts, p_now), false, true, true, p_path
      FROM topics_topichead WHERE topic_id = p_dest_id;

    UPDATE topics_topichead
       SET head_seq = head_seq + p_lost, ragged_seq = head_seq + p_lost, last_ts = greatest(last_ts, p_now)
     WHERE topic_id = p_dest_id
$$;


--
-- Name: router_moved(bigint, bigint, bigint, bigint, text, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_moved(p_router_id bigint, p_cursor_id bigint, p_forwarded bigint, p_cursor_seq bigint, p_blocked text, p_rejected bigint, p_now bigint) RETURNS void
    LANGUAGE sql
    AS $$
    UPDATE topics_cursor SET seq = p_cursor_seq, forwarded_total = forwarded_total + p_forwarded, updated_ts = p_now
     WHERE id = p_cursor_id AND seq < p_cursor_seq;
    UPDATE routers_router
       SET state = 'blocked', last_error = p_blocked, errors_total = errors_total + 1, retry_bytes = p_rejected,
           retry_ms = least(greatest(retry_ms * 2, 100), 5000), retry_ts = p_now + least(greatest(retry_ms * 2, 100), 5000)
     WHERE id = p_router_id AND p_blocked IS NOT NULL;
    UPDATE routers_router SET state = 'running', last_error = NULL, retry_bytes = NULL, retry_ms = 0, retry_ts = 0
     WHERE id = p_router_id AND p_blocked IS NULL AND state = 'blocked'
$$;


--
-- Name: router_runs(bigint, bigint, bigint, bigint, bigint, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_runs(p_source_id bigint, p_ragged_seq bigint, p_told bigint, p_after bigint, p_upto bigint, p_op text, p_tag text, p_max_hops integer) RETURNS TABLE(first_seq bigint, last_seq bigint, home_id bigint, home_first_seq bigint, keep_node boolean, keep_tag boolean, path text[], stamp_router text, stamp_source text, stamp_source_id bigint, stamp_first_seq bigint)
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
BEGIN
    IF p_told < p_ragged_seq THEN
        RETURN QUERY
        SELECT greatest(first_seq, p_told + 1), least(last_seq, p_upto), NULL::bigint, 0::bigint, true, true, path,
               NULL, NULL, NULL::bigint, NULL::bigint
          FROM routers_span
         WHERE topic_id = p_source_id AND home_id IS NULL AND last_seq > p_told AND first_seq <= p_upto
           AND (cardinality(path) < p_max_hops) IS NOT FALSE;
    END IF;
    IF p_op IS NULL AND p_after >= p_ragged_seq THEN  -- own, live, no hole: one run, and nothing to look at
        RETURN QUERY SELECT p_after + 1, p_upto, p_source_id, p_after + 1, true, true, '{}'::text[], NULL, NULL, NULL::bigint, NULL::bigint
                      WHERE p_after < p_upto;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT min(seq), max(seq), p_source_id, min(seq), true, true, '{}'::text[], NULL, NULL, NULL::bigint, NULL::bigint
      FROM (SELECT seq, seq - row_number() OVER (ORDER BY seq) AS run
              FROM topics_record
             WHERE topic_id = p_source_id AND seq > p_after AND seq <= p_upto AND NOT deleted
               AND (p_op IS NULL OR tag = p_tag OR (p_op = 'Glob' AND starts_with(tag, p_tag)))) own
     GROUP BY run;
    RETURN QUERY
    SELECT span.first_seq + part.since - span.home_first_seq, span.first_seq + part.upto - span.home_first_seq,
           span.home_id, part.since, span.keep_node, span.keep_tag, span.path,
           span.stamp_router, span.stamp_source, span.stamp_source_id, span.stamp_first_seq + part.since - span.home_first_seq
      FROM (SELECT *, home_first_seq + greatest(p_after + 1 - first_seq, 0) AS home_since,
                   home_last_seq - greatest(last_seq - p_upto, 0) AS home_upto
              FROM routers_span
             WHERE topic_id = p_source_id AND last_seq > p_after AND last_seq < p_upto + 100000 AND first_seq <= p_upto
               AND shown AND (cardinality(path) < p_max_hops) IS NOT FALSE) span
     CROSS JOIN LATERAL (
           SELECT span.home_since AS since, span.home_upto AS upto WHERE p_op IS NULL
           UNION ALL
           SELECT min(seq), max(seq)
             FROM (SELECT seq, seq - row_number() OVER (ORDER BY seq) AS run
                     FROM topics_record
                    WHERE topic_id = span.home_id AND seq BETWEEN span.home_since AND span.home_upto
                      AND (tag = p_tag OR (p_op = 'Glob' AND starts_with(tag, p_tag)))) home
            WHERE p_op IS NOT NULL AND span.keep_tag
            GROUP BY run) part;
END
$$;


--
-- Name: routers_advance(bigint, bigint, boolean, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.routers_advance(p_source_id bigint, p_dest_id bigint, p_wait boolean, p_limit bigint, p_now bigint, p_max_hops integer) RETURNS TABLE(dest_id bigint, dest_head bigint, moved boolean, routed boolean, more boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    taken   bigint[];  -- routers whose cursors are ours
    plain   bigint[];
    careful bigint[];  -- those of them that go one by one
    head    topics_topichead;
    router  record;
    done    record;
    budget  bigint := p_limit;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7001);
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_source_id;
    IF p_wait THEN
        taken := ARRAY(SELECT r.id FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
                        WHERE r.source_id = p_source_id AND r.dest_id = p_dest_id AND c.seq < head.head_seq AND router_due(r, p_now)
                        ORDER BY c.id FOR UPDATE OF c);
    ELSE
        taken := ARRAY(SELECT r.id FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
                        WHERE r.source_id = p_source_id AND (p_dest_id IS NULL OR r.dest_id = p_dest_id) AND c.seq < head.head_seq
                          AND router_due(r, p_now)
                        FOR UPDATE OF c SKIP LOCKED);
    END IF;
    IF taken = '{}' THEN
        RETURN;
    END IF;
    PERFORM FROM topics_topichead
      WHERE topic_id IN (SELECT r.dest_id FROM routers_router r WHERE r.id = ANY (taken)) ORDER BY topic_id FOR UPDATE;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_source_id;

    -- Alike: everything from the cursor on is the source's own, without a hole, and the dest takes all of it, from this router
    -- alone. Whether a router may run is looked at again: it may have been paused while we waited for its cursor.
    SELECT array_agg(id ORDER BY id) FILTER (WHERE alike), array_agg(id ORDER BY id) FILTER (WHERE NOT alike) INTO plain, careful
      FROM (SELECT r.id, c.seq >= head.ragged_seq AND c.seq >= head.floor_seq AND source.ttl_ms = 0 AND r.filter_op IS NULL
                         AND NOT r.cyclic AND r.guarantee <> 'exactly_once' AND dest.cap_records = 0 AND dest.cap_bytes = 0
                         AND count(*) OVER (PARTITION BY r.dest_id) = 1 AS alike
              FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
              JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
             WHERE r.id = ANY (taken) AND c.seq < head.head_seq AND router_due(r, p_now)) router;
    RETURN QUERY
    WITH router AS (
        SELECT r.id, r.name, r.state, r.cursor_id, r.dest_id, r.preserve_node, r.preserve_tag, c.seq AS after, head.head_seq - c.seq AS records
          FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
         WHERE r.id = ANY (plain)),
    sized AS (
        SELECT after, topic_range_bytes(p_source_id, after + 1, head.head_seq) AS bytes FROM (SELECT DISTINCT after FROM router) distances),
    placed AS (
        SELECT router.*, sized.bytes, greatest(dest.last_ts, p_now) AS ts, dest.head_seq AS base
          FROM router JOIN sized USING (after) JOIN topics_topichead dest ON dest.topic_id = router.dest_id),
    spans AS (  -- at most 100,000 long: whoever looks for the spans over a record knows how far to look
        INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
        SELECT dest_id, base + n + 1, base + least(n + 100000, records), p_source_id, after + n + 1, after + least(n + 100000, records),
               ts, true, preserve_node, preserve_tag, ARRAY[name]
          FROM placed CROSS JOIN LATERAL generate_series(0, records - 1, 100000) n),
    heads AS (
        UPDATE topics_topichead dest
           SET head_seq = dest.head_seq + placed.records, ragged_seq = dest.head_seq + placed.records,
               count = dest.count + placed.records, bytes = dest.bytes + placed.bytes, last_ts = placed.ts
          FROM placed WHERE dest.topic_id = placed.dest_id
        RETURNING dest.topic_id, dest.head_seq),
    cursors AS (
        UPDATE topics_cursor c SET seq = head.head_seq, forwarded_total = c.forwarded_total + placed.records, updated_ts = p_now
          FROM placed WHERE c.id = placed.cursor_id),
    running AS (
        UPDATE routers_router r SET state = 'running', last_error = NULL, retry_bytes = NULL, retry_ms = 0, retry_ts = 0
          FROM placed WHERE r.id = placed.id AND placed.state = 'blocked')
    SELECT topic_id, head_seq, true, EXISTS (SELECT FROM routers_router onward WHERE onward.source_id = topic_id), false
      FROM heads;

    FOR router IN SELECT r.id, r.dest_id, r.cursor_id, r.state, c.seq AS cursor_seq, dest.head_seq AS head_before
                    FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead dest ON dest.topic_id = r.dest_id
                   WHERE r.id = ANY (careful) ORDER BY r.id LOOP
        SELECT 0::bigint AS forwarded, router.cursor_seq AS cursor_seq, NULL::text AS blocked, NULL::bigint AS rejected INTO done;
        IF budget > 0 THEN
            BEGIN
                SELECT forwarded, cursor_seq, blocked, rejected INTO done FROM router_forward(router.id, budget, p_now, p_max_hops);
            EXCEPTION WHEN OTHERS THEN
                -- One router's trouble is not its neighbours'. But what befell the transaction or the server is nobody's fault here.
                IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') THEN
                    RAISE;
                END IF;
                SELECT 0::bigint AS forwarded, router.cursor_seq AS cursor_seq, SQLERRM AS blocked, NULL::bigint AS rejected INTO done;
            END;
            PERFORM router_moved(router.id, router.cursor_id, done.forwarded, done.cursor_seq, done.blocked, done.rejected, p_now);
            budget := budget - (done.cursor_seq - router.cursor_seq);
        END IF;
        SELECT router.dest_id, dest.head_seq, dest.head_seq > router.head_before,
               EXISTS (SELECT FROM routers_router onward WHERE onward.source_id = router.dest_id),
               done.blocked IS NULL AND done.cursor_seq < head.head_seq
          INTO dest_id, dest_head, moved, routed, more
          FROM topics_topichead dest WHERE dest.topic_id = router.dest_id;
        IF moved OR done.blocked IS NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;


--
-- Name: span_hide(bigint, bigint, int8multirange, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.span_hide(p_topic_id bigint, p_last_seq bigint, p_home int8multirange, p_lost boolean) RETURNS void
    LANGUAGE sql
    AS $$
    WITH piece AS (
        SELECT span.*, lower(run) AS since, upper(run) - 1 AS until, show,
               CASE WHEN show OR NOT p_lost THEN home_id END AS piece_home_id,
               CASE WHEN show OR NOT p_lost THEN path ELSE '{}' END AS piece_path
          FROM routers_span span
         CROSS JOIN LATERAL (
               SELECT unnest(p_home * whole) AS run, false AS show FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole
               UNION ALL
               SELECT unnest(whole - p_home), true FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole) runs
         WHERE topic_id = p_topic_id AND last_seq = p_last_seq),
    added AS (
        INSERT INTO routers_span (topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag,
                                  path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
        SELECT topic_id, last_seq - (home_last_seq - until), first_seq + (since - home_first_seq), piece_home_id, since, until, ts,
               shown AND show, keep_node, keep_tag, piece_path, stamp_router, stamp_source, stamp_source_id,
               stamp_first_seq + (since - home_first_seq)
          FROM piece WHERE until < home_last_seq)
    UPDATE routers_span span  -- the last piece keeps the row
       SET first_seq = span.first_seq + (since - span.home_first_seq), home_id = piece_home_id, home_first_seq = since,
           shown = span.shown AND show, path = piece_path, stamp_first_seq = span.stamp_first_seq + (since - span.home_first_seq)
      FROM piece
     WHERE span.topic_id = piece.topic_id AND span.last_seq = piece.last_seq AND piece.until = piece.home_last_seq
$$;


--
-- Name: stamped_meta(json, text, text, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.stamped_meta(meta json, router text, source text, source_id bigint, source_seq bigint) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN meta IS NULL OR meta::text ~ '^\s*\{\s*\}\s*$' THEN '{'
                ELSE regexp_replace(meta::text, '\}\s*$', ',') END
        || '"_topics_router":{"router":' || to_json(router) || ',"source":' || to_json(source)
        || ',"source_topic_id":' || source_id || ',"source_epoch":' || source_id || ',"source_seq":' || source_seq
        || ',"key":' || to_json(router || ':' || source_id || ':' || source_seq) || '}}'
$_$;


--
-- Name: topic_delete_match(bigint, bigint, bigint, text, text, text, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_delete_match(p_topic_id bigint, p_version bigint, p_before_seq bigint, p_op text, p_tag text, p_tag_end text, p_expired_ts bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    head    topics_topichead;
    upto    bigint;
    tagged  text := CASE WHEN p_op = 'Eq' THEN 'tag = $4' WHEN p_tag_end IS NULL THEN 'tag >= $4' ELSE 'tag >= $4 AND tag < $5' END;
    seqs    bigint[];
    sizes   integer[];
    spans   bigint[];  -- their last_seq, and which of their home seqs match
    matches int8multirange[];
    piece   record;
    deleted bigint;
    bytes   bigint;
    last    bigint;
BEGIN
    -- One delete by tag at a time in a topic: two would lock the same rows in different orders. Reclaim leaves the topic alone.
    PERFORM pg_advisory_xact_lock(7003, (p_topic_id % 2147483648)::integer);
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    upto := least(p_before_seq - 1, head.head_seq);
    EXECUTE 'WITH marked AS (
                 UPDATE topics_record SET deleted = true
                  WHERE topic_id = $1 AND seq > $2 AND seq <= $3 AND NOT deleted AND ' || tagged || '
                    AND ($6 IS NULL OR ts >= $6)
                 RETURNING seq, size)
             SELECT array_agg(seq), array_agg(size) FROM marked'
       INTO seqs, sizes USING p_topic_id, head.floor_seq, upto, p_tag, p_tag_end, p_expired_ts;

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

    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- what is over its time was lost, not deleted: no mark of ours is among it
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    SELECT count(*), coalesce(sum(size), 0), max(seq) INTO deleted, bytes, last
      FROM unnest(seqs, sizes) marked (seq, size) WHERE seq > head.floor_seq;
    FOR piece IN
        SELECT span.last_seq, hits, count(*) AS records, sum(home.size) AS bytes,
               max(span.last_seq - (home_last_seq - home.seq)) AS last
          FROM (SELECT span.*, hits * int8multirange(int8range(home_first_seq + greatest(head.floor_seq + 1 - first_seq, 0),
                                                               home_last_seq, '[]')) AS hits
                  FROM unnest(spans, matches) found (last_seq, hits)
                  JOIN routers_span span ON span.topic_id = p_topic_id AND span.last_seq = found.last_seq
                 WHERE span.last_seq > head.floor_seq) span
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
        UPDATE topics_topichead SET ragged_seq = greatest(ragged_seq, last) WHERE topic_id = p_topic_id;
        PERFORM topic_shrink(p_topic_id, head.floor_seq, deleted, bytes);
    END IF;
    RETURN NEXT deleted;
END
$_$;


--
-- Name: topic_diff(bigint, bigint, bigint, integer, text[], text, text, boolean, boolean, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_diff(p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint, OUT lost text, OUT gap_to bigint) RETURNS SETOF record
    LANGUAGE plpgsql STABLE
    AS $$
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


--
-- Name: topic_evict(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_evict(p_topic_id bigint, p_cap_records bigint, p_cap_bytes bigint) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (topic_trim(topic_id, topic_floor_for(topic_id, over_records, over_bytes), 'cap')).records
      FROM (SELECT topic_id,
                   CASE WHEN p_cap_records > 0 THEN count - p_cap_records ELSE 0 END AS over_records,
                   CASE WHEN p_cap_bytes > 0 THEN bytes - p_cap_bytes ELSE 0 END AS over_bytes
              FROM topics_topichead WHERE topic_id = p_topic_id) head
     WHERE over_records > 0 OR over_bytes > 0
$$;


--
-- Name: topic_expire(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_expire(p_topic_id bigint, p_expired_ts bigint) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (topic_trim(topic_id, topic_seq_at(topic_id, floor_seq, head_seq, p_expired_ts) - 1, 'ttl')).records
      FROM topics_topichead WHERE topic_id = p_topic_id AND p_expired_ts IS NOT NULL
$$;


--
-- Name: topic_extent(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_extent(p_topic_id bigint, p_first bigint, p_last bigint, p_ragged_seq bigint, OUT records bigint, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    plain bigint := greatest(p_first, p_ragged_seq + 1);
    upto  bigint := least(p_last, p_ragged_seq);
BEGIN
    records := 0; bytes := 0;
    IF plain <= p_last THEN
        records := p_last - plain + 1;
        bytes := topic_range_bytes(p_topic_id, plain, p_last);
    END IF;
    IF p_first > upto THEN
        RETURN;
    END IF;
    SELECT records + count(*), bytes + coalesce(sum(size), 0) INTO records, bytes
      FROM topics_record
     WHERE topic_id = p_topic_id AND seq BETWEEN p_first AND upto AND NOT deleted;
    -- As topic_range_bytes, written out: a call for each of many short spans would take three times as long.
    SELECT records + coalesce(sum(until - since + 1), 0), bytes + coalesce(sum(
               CASE WHEN since = until THEN (SELECT size FROM topics_record WHERE topic_id = home_id AND seq = until)
                    ELSE (SELECT total FROM topics_record WHERE topic_id = home_id AND seq = until)
                         - (SELECT total - size FROM topics_record WHERE topic_id = home_id AND seq = since) END), 0)
      INTO records, bytes
      FROM (SELECT home_id,
                   home_first_seq + greatest(p_first - first_seq, 0) AS since,
                   home_last_seq - greatest(last_seq - upto, 0) AS until
              FROM topic_spans(p_topic_id, p_first, upto)
             WHERE shown) piece;
END
$$;


--
-- Name: topic_first_live(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_first_live(p_topic_id bigint, p_after bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT least(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1),
        (SELECT greatest(first_seq, p_after + 1) FROM routers_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1))
$$;


--
-- Name: topic_floor_for(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_floor_for(p_topic_id bigint, p_records bigint, p_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    head    topics_topichead;
    entry   record;
    size    bigint;
    floor   bigint;
    batch   integer := 8;
    seen    integer;
    records bigint := greatest(p_records, 0);
    bytes   bigint := greatest(p_bytes, 0);
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    floor := head.floor_seq;
    IF floor >= head.ragged_seq THEN
        RETURN least(head.head_seq, greatest(floor + records,
            CASE WHEN bytes > 0 THEN topic_seq_of_bytes(p_topic_id, floor + 1, head.head_seq, bytes) END));
    END IF;
    LOOP
        seen := 0;
        FOR entry IN
            SELECT * FROM (
                (SELECT seq AS last_seq, r.size AS own_size, NULL::bigint AS home_id, 1::bigint AS home_since, 1::bigint AS home_last_seq
                   FROM topics_record r WHERE topic_id = p_topic_id AND seq > floor AND NOT deleted ORDER BY seq LIMIT batch)
                UNION ALL
                (SELECT last_seq, NULL, home_id, home_first_seq + greatest(floor + 1 - first_seq, 0), home_last_seq
                   FROM routers_span WHERE topic_id = p_topic_id AND last_seq > floor AND shown ORDER BY last_seq LIMIT batch)) entries
             ORDER BY last_seq LIMIT batch
        LOOP
            size := coalesce(entry.own_size, topic_range_bytes(entry.home_id, entry.home_since, entry.home_last_seq));
            IF entry.home_last_seq - entry.home_since + 1 >= records AND size >= bytes THEN  -- the new floor lies here
                RETURN entry.last_seq - (entry.home_last_seq - greatest(entry.home_since + records - 1,
                    CASE WHEN bytes > 0 AND entry.home_id IS NOT NULL
                         THEN topic_seq_of_bytes(entry.home_id, entry.home_since, entry.home_last_seq, bytes) ELSE entry.home_since END));
            END IF;
            records := greatest(records - (entry.home_last_seq - entry.home_since + 1), 0);
            bytes := greatest(bytes - size, 0);
            floor := entry.last_seq;
            seen := seen + 1;
        END LOOP;
        IF seen < batch THEN
            RETURN head.head_seq;
        END IF;
        batch := least(batch * 4, 1000);
    END LOOP;
END
$$;


--
-- Name: topic_last_live(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_last_live(p_topic_id bigint, p_after bigint, p_upto bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT greatest(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted ORDER BY seq DESC LIMIT 1),
        (SELECT last_seq FROM routers_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND shown ORDER BY last_seq DESC LIMIT 1),
        (SELECT p_upto FROM (SELECT first_seq, shown FROM routers_span
                              WHERE topic_id = p_topic_id AND last_seq > p_upto ORDER BY last_seq LIMIT 1) beyond
          WHERE first_seq <= p_upto AND shown))
$$;


--
-- Name: topic_last_loss(bigint, bigint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_last_loss(p_topic_id bigint, p_after bigint, p_upto bigint, p_why text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT last_seq FROM routers_span
     WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND home_id IS NULL
       AND (path = '{}') = (p_why = 'restart')
     ORDER BY last_seq DESC LIMIT 1
$$;


--
-- Name: routers_span; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.routers_span (
    topic_id bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    home_id bigint,
    home_first_seq bigint NOT NULL,
    home_last_seq bigint NOT NULL,
    ts bigint NOT NULL,
    shown boolean NOT NULL,
    keep_node boolean NOT NULL,
    keep_tag boolean NOT NULL,
    path text[] NOT NULL,
    stamp_router text COLLATE pg_catalog."C",
    stamp_source text,
    stamp_source_id bigint,
    stamp_first_seq bigint
);


--
-- Name: topics_deletedtopic; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_deletedtopic (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    deleted_ts bigint NOT NULL
);


--
-- Name: topics_record; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_record (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    total bigint NOT NULL,
    size integer NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    volatile boolean DEFAULT false NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json NOT NULL
)
PARTITION BY LIST (volatile);


--
-- Name: topics_topic; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_topic (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    type character varying(8) NOT NULL,
    ttl_ms bigint NOT NULL,
    cap_records bigint NOT NULL,
    cap_bytes bigint NOT NULL,
    discard character varying(8) NOT NULL,
    durability character varying(12) NOT NULL,
    priority integer,
    auto_priority boolean NOT NULL,
    auto_create boolean NOT NULL,
    idempotency_window_ms bigint NOT NULL,
    dedupe_node boolean NOT NULL,
    lease_ms bigint NOT NULL,
    claim_jitter_ms bigint NOT NULL,
    max_deliveries integer NOT NULL,
    dead_letter character varying(255) COLLATE pg_catalog."C",
    leases_durable boolean NOT NULL,
    created_ts bigint NOT NULL
);


--
-- Name: topics_topichead; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_topichead (
    topic_id bigint NOT NULL,
    head_seq bigint NOT NULL,
    floor_seq bigint NOT NULL,
    cap_lost_seq bigint NOT NULL,
    ttl_lost_seq bigint NOT NULL,
    restart_lost_seq bigint NOT NULL,
    source_lost_seq bigint NOT NULL,
    ragged_seq bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    total bigint NOT NULL,
    last_ts bigint NOT NULL,
    last_read_ts bigint NOT NULL,
    version bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: topic_log; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.topic_log AS
 SELECT t.name AS topic,
    r.seq,
    r.ts,
    r.node,
    r.tag,
    r.meta,
    r.data,
    t.name AS home_topic,
    t.id AS home_topic_id,
    r.seq AS home_seq,
    '{}'::text[] AS path
   FROM ((public.topics_topic t
     JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     JOIN public.topics_record r ON ((r.topic_id = t.id)))
  WHERE ((r.seq > h.floor_seq) AND (NOT r.deleted) AND ((t.ttl_ms = 0) OR ((r.ts)::numeric >= ((EXTRACT(epoch FROM statement_timestamp()) * (1000)::numeric) - (t.ttl_ms)::numeric))))
UNION ALL
 SELECT t.name AS topic,
    ((s.first_seq + r.seq) - s.home_first_seq) AS seq,
    s.ts,
        CASE
            WHEN s.keep_node THEN r.node
            ELSE NULL::text
        END AS node,
        CASE
            WHEN s.keep_tag THEN r.tag
            ELSE NULL::text
        END AS tag,
        CASE
            WHEN (s.stamp_router IS NULL) THEN r.meta
            ELSE (public.stamped_meta(r.meta, s.stamp_router, s.stamp_source, s.stamp_source_id, ((s.stamp_first_seq + r.seq) - s.home_first_seq)))::json
        END AS meta,
    r.data,
    COALESCE(home.name, gone.name) AS home_topic,
    s.home_id AS home_topic_id,
    r.seq AS home_seq,
    s.path
   FROM (((((public.topics_topic t
     JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     JOIN public.routers_span s ON (((s.topic_id = t.id) AND (s.last_seq > h.floor_seq) AND s.shown)))
     JOIN public.topics_record r ON (((r.topic_id = s.home_id) AND (r.seq >= (s.home_first_seq + GREATEST(((h.floor_seq + 1) - s.first_seq), (0)::bigint))) AND (r.seq <= s.home_last_seq))))
     LEFT JOIN public.topics_topic home ON ((home.id = s.home_id)))
     LEFT JOIN public.topics_deletedtopic gone ON ((gone.id = s.home_id)))
  WHERE ((t.ttl_ms = 0) OR ((s.ts)::numeric >= ((EXTRACT(epoch FROM statement_timestamp()) * (1000)::numeric) - (t.ttl_ms)::numeric)));


--
-- Name: topic_log_range(text, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_log_range(p_topic text, p_first bigint, p_last bigint) RETURNS SETOF public.topic_log
    LANGUAGE sql STABLE
    AS $$
    SELECT t.name::varchar, r.seq, r.ts, r.node, r.tag, r.meta, r.data, t.name::varchar, t.id, r.seq, '{}'::text[]
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
      JOIN topics_record r ON r.topic_id = t.id AND r.seq > h.floor_seq AND r.seq >= p_first AND r.seq <= p_last
     WHERE t.name = p_topic AND NOT r.deleted
       AND (t.ttl_ms = 0 OR r.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
    UNION ALL
    SELECT t.name, s.first_seq + r.seq - s.home_first_seq, s.ts,
           CASE WHEN s.keep_node THEN r.node END, CASE WHEN s.keep_tag THEN r.tag END,
           CASE WHEN s.stamp_router IS NULL THEN r.meta
                ELSE stamped_meta(r.meta, s.stamp_router, s.stamp_source, s.stamp_source_id,
                                  s.stamp_first_seq + r.seq - s.home_first_seq)::json END,
           r.data, coalesce(home.name, gone.name), s.home_id, r.seq, s.path
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_spans(t.id, greatest(p_first, h.floor_seq + 1), p_last) s
     CROSS JOIN LATERAL (
           SELECT seq, node, tag, meta, data FROM topics_record
            WHERE topic_id = s.home_id
              AND seq >= s.home_first_seq + greatest(p_first - s.first_seq, h.floor_seq + 1 - s.first_seq, 0)
              AND seq <= s.home_last_seq - greatest(s.last_seq - p_last, 0)
           OFFSET 0) r
      LEFT JOIN topics_topic home ON home.id = s.home_id
      LEFT JOIN topics_deletedtopic gone ON gone.id = s.home_id
     WHERE t.name = p_topic AND s.shown
       AND (t.ttl_ms = 0 OR s.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
$$;


--
-- Name: topic_next_ts(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_next_ts(p_topic_id bigint, p_after bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT ts FROM (
        (SELECT seq, ts FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1)
        UNION ALL
        (SELECT last_seq, ts FROM routers_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1)) next (seq, ts)
     ORDER BY seq LIMIT 1
$$;


--
-- Name: topic_range_bytes(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT (SELECT total FROM topics_record WHERE topic_id = p_home_id AND seq = p_last)
         - (SELECT total - size FROM topics_record WHERE topic_id = p_home_id AND seq = p_first)
$$;


--
-- Name: topic_seq_at(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_seq_at(p_topic_id bigint, p_after bigint, p_head bigint, p_ts bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    low   bigint := p_after + 1;  -- everything below is older
    high  bigint := p_head + 1;   -- everything from here on is not
    probe bigint := low;          -- the oldest first: mostly nothing is older
    place record;
BEGIN
    WHILE low < high LOOP
        SELECT first_seq, last_seq, ts INTO place FROM (
            (SELECT seq AS first_seq, seq AS last_seq, ts FROM topics_record
              WHERE topic_id = p_topic_id AND seq >= probe AND seq <= p_head ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT first_seq, last_seq, ts FROM routers_span
              WHERE topic_id = p_topic_id AND last_seq >= probe ORDER BY last_seq LIMIT 1)) place
         ORDER BY last_seq LIMIT 1;
        IF NOT FOUND OR place.ts >= p_ts THEN
            high := probe;
            IF FOUND AND place.first_seq < probe THEN high := greatest(place.first_seq, low); END IF;
        ELSE
            low := place.last_seq + 1;
        END IF;
        probe := (low + high) / 2;
    END LOOP;
    RETURN least(low, p_head + 1);
END
$$;


--
-- Name: topic_seq_of_bytes(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_seq_of_bytes(p_home_id bigint, p_first bigint, p_last bigint, p_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    base  bigint;
    low   bigint := p_first;
    high  bigint := p_last;
    probe bigint;
BEGIN
    SELECT total - size INTO base FROM topics_record WHERE topic_id = p_home_id AND seq = p_first;
    WHILE low < high LOOP
        probe := (low + high) / 2;
        IF (SELECT total - base >= p_bytes FROM topics_record WHERE topic_id = p_home_id AND seq = probe) THEN
            high := probe;
        ELSE
            low := probe + 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;


--
-- Name: topic_shrink(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_shrink(p_topic_id bigint, p_floor_seq bigint, p_records bigint, p_bytes bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    head  topics_topichead;
    floor bigint;
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    floor := greatest(head.floor_seq, p_floor_seq);
    IF head.count = p_records THEN
        floor := head.head_seq;
    ELSIF floor < head.ragged_seq THEN
        floor := topic_first_live(p_topic_id, floor) - 1;
    END IF;
    UPDATE topics_topichead
       SET floor_seq = floor, count = count - p_records, bytes = bytes - p_bytes,
           restart_lost_seq = greatest(restart_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'restart')),
           source_lost_seq = greatest(source_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'source_trim'))
     WHERE topic_id = p_topic_id;
END
$$;


--
-- Name: topic_spans(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_spans(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS SETOF public.routers_span
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM routers_span WHERE topic_id = p_topic_id AND last_seq >= p_first AND last_seq <= p_last
    UNION ALL
    SELECT * FROM (SELECT * FROM routers_span
                    WHERE topic_id = p_topic_id AND last_seq > p_last AND last_seq >= p_first ORDER BY last_seq LIMIT 1) beyond
     WHERE first_seq <= p_last
$$;


--
-- Name: topic_stat(public.topics_topichead, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_stat(p_head public.topics_topichead, p_expired_ts bigint, OUT earliest_seq bigint, OUT records bigint, OUT payload bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    cut  bigint;
    gone record;
BEGIN
    earliest_seq := p_head.floor_seq + 1;
    records := p_head.count;
    payload := p_head.bytes;
    IF p_expired_ts IS NULL OR records = 0 THEN
        RETURN;
    END IF;
    cut := topic_seq_at(p_head.topic_id, p_head.floor_seq, p_head.head_seq, p_expired_ts) - 1;
    IF cut <= p_head.floor_seq THEN
        RETURN;
    END IF;
    SELECT * INTO gone FROM topic_extent(p_head.topic_id, p_head.floor_seq + 1, cut, p_head.ragged_seq);
    records := records - gone.records;
    payload := payload - gone.bytes;
    earliest_seq := coalesce(topic_first_live(p_head.topic_id, cut), p_head.head_seq + 1);
END
$$;


--
-- Name: topic_trim(bigint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_trim(p_topic_id bigint, p_upto bigint, p_why text, OUT records bigint, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    head topics_topichead;
    upto bigint;
    lost bigint;  -- the last record that goes: a hole behind it is nobody's loss
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    upto := least(p_upto, head.head_seq);
    SELECT e.records, e.bytes INTO records, bytes
      FROM topic_extent(p_topic_id, head.floor_seq + 1, upto, head.ragged_seq) e;
    IF records = 0 THEN
        RETURN;
    END IF;
    IF p_why <> 'delete' THEN
        lost := CASE WHEN upto > head.ragged_seq THEN upto ELSE topic_last_live(p_topic_id, head.floor_seq, upto) END;
        UPDATE topics_topichead
           SET cap_lost_seq = CASE WHEN p_why = 'cap' THEN lost ELSE cap_lost_seq END,
               ttl_lost_seq = CASE WHEN p_why = 'ttl' THEN lost ELSE ttl_lost_seq END,
               restart_lost_seq = CASE WHEN p_why = 'restart' THEN lost ELSE restart_lost_seq END
         WHERE topic_id = p_topic_id;
    END IF;
    PERFORM topic_shrink(p_topic_id, upto, records, bytes);
END
$$;


--
-- Name: topics_recover(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topics_recover() RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    head    topics_topichead;
    piece   record;
    changed boolean;
    own     bigint;
    spans   bigint;
BEGIN
    IF EXISTS (SELECT FROM topics_survived) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7004);  -- of all who find this at once, one does it
    IF EXISTS (SELECT FROM topics_survived) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7001);  -- and nobody forwards what is not there
    FOR head IN SELECT * FROM topics_topichead WHERE ragged_seq > floor_seq ORDER BY topic_id FOR UPDATE LOOP
        SELECT count(*) INTO own FROM topics_record
         WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.ragged_seq AND NOT deleted;
        SELECT coalesce(sum(last_seq - greatest(first_seq, head.floor_seq + 1) + 1), 0) INTO spans FROM routers_span
         WHERE topic_id = head.topic_id AND last_seq > head.floor_seq AND shown;
        changed := own + spans < head.count - (head.head_seq - head.ragged_seq);
        IF changed THEN
            INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                                      keep_tag, path)
            SELECT head.topic_id, lower(gap), upper(gap) - 1, NULL, 0, 0,
                   coalesce(topic_next_ts(head.topic_id, upper(gap) - 1), head.last_ts), false, true, true, '{}'
              FROM (SELECT unnest(int8multirange(int8range(head.floor_seq, head.ragged_seq, '(]')) - coalesce(range_agg(there), '{}')) AS gap
                      FROM (SELECT int8range(seq, seq, '[]') AS there FROM topics_record
                             WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.ragged_seq
                            UNION ALL
                            SELECT int8range(first_seq, last_seq, '[]') FROM routers_span
                             WHERE topic_id = head.topic_id AND last_seq > head.floor_seq) entry) gaps;
        END IF;
        FOR piece IN
            SELECT last_seq, int8multirange(int8range(home_first_seq, home_last_seq, '[]')) - coalesce(present, '{}') AS gone
              FROM (SELECT span.* FROM routers_span span LEFT JOIN topics_topichead home ON home.topic_id = span.home_id
                     WHERE span.topic_id = head.topic_id AND last_seq > head.floor_seq AND shown
                       AND (home.topic_id IS NULL OR home.ragged_seq >= home_first_seq)) span
             CROSS JOIN LATERAL (SELECT range_agg(int8range(seq, seq, '[]')) AS present FROM topics_record
                                  WHERE topic_id = home_id AND seq BETWEEN home_first_seq AND home_last_seq) stored
        LOOP
            IF NOT isempty(piece.gone) THEN
                PERFORM span_hide(head.topic_id, piece.last_seq, piece.gone, true);
                changed := true;
            END IF;
        END LOOP;
        IF changed THEN
            UPDATE topics_topichead SET (count, bytes) = (
                SELECT records, bytes FROM topic_extent(head.topic_id, head.floor_seq + 1, head.head_seq, head.ragged_seq))
             WHERE topic_id = head.topic_id;
            PERFORM topic_shrink(head.topic_id, head.floor_seq, 0, 0);
        END IF;
    END LOOP;
    INSERT INTO topics_survived VALUES (true);
END
$$;


--
-- Name: auth_group; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);


--
-- Name: auth_group_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: auth_group_permissions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);


--
-- Name: auth_group_permissions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: auth_permission; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);


--
-- Name: auth_permission_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: auth_user; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);


--
-- Name: auth_user_groups; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);


--
-- Name: auth_user_groups_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: auth_user_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: auth_user_user_permissions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);


--
-- Name: auth_user_user_permissions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_admin_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);


--
-- Name: django_admin_log_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_content_type; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);


--
-- Name: django_content_type_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_eventstream_event; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_eventstream_event (
    id integer NOT NULL,
    channel character varying(255) NOT NULL,
    type character varying(255) NOT NULL,
    data text NOT NULL,
    eid bigint NOT NULL,
    created timestamp with time zone NOT NULL
);


--
-- Name: django_eventstream_event_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.django_eventstream_event ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_eventstream_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_eventstream_eventcounter; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_eventstream_eventcounter (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    value bigint NOT NULL,
    updated timestamp with time zone NOT NULL
);


--
-- Name: django_eventstream_eventcounter_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.django_eventstream_eventcounter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_eventstream_eventcounter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);


--
-- Name: django_migrations_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: django_session; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);


--
-- Name: routers_router_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.routers_router ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.routers_router_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: topics_apikey; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_apikey (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    secret_sha256 bytea NOT NULL,
    read boolean NOT NULL,
    write boolean NOT NULL,
    delete_scope boolean NOT NULL,
    admin boolean NOT NULL,
    prefixes text NOT NULL,
    created_ts bigint NOT NULL,
    last_used_ts bigint,
    revoked_ts bigint
);


--
-- Name: topics_apikey_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.topics_apikey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_apikey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: topics_cursor; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_cursor (
    id bigint NOT NULL,
    kind character varying(12) NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    forwarded_total bigint NOT NULL,
    updated_ts bigint NOT NULL,
    topic_id bigint NOT NULL
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: topics_cursor_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.topics_cursor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_cursor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: topics_idempotencykey; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_idempotencykey (
    key character varying(256) NOT NULL COLLATE pg_catalog."C",
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    ts bigint NOT NULL,
    topic_id bigint NOT NULL
);


--
-- Name: topics_reclaim; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_reclaim (
    topic_id bigint NOT NULL,
    next_seq bigint NOT NULL,
    reclaimed_records bigint NOT NULL,
    held_records bigint NOT NULL,
    updated_ts bigint NOT NULL
);


--
-- Name: topics_record_logged; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_record_logged (
    topic_id bigint CONSTRAINT topics_record_topic_id_not_null NOT NULL,
    seq bigint CONSTRAINT topics_record_seq_not_null NOT NULL,
    ts bigint CONSTRAINT topics_record_ts_not_null NOT NULL,
    total bigint CONSTRAINT topics_record_total_not_null NOT NULL,
    size integer CONSTRAINT topics_record_size_not_null NOT NULL,
    deleted boolean DEFAULT false CONSTRAINT topics_record_deleted_not_null NOT NULL,
    volatile boolean DEFAULT false CONSTRAINT topics_record_volatile_not_null NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json CONSTRAINT topics_record_data_not_null NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');


--
-- Name: topics_record_volatile; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.topics_record_volatile (
    topic_id bigint CONSTRAINT topics_record_topic_id_not_null NOT NULL,
    seq bigint CONSTRAINT topics_record_seq_not_null NOT NULL,
    ts bigint CONSTRAINT topics_record_ts_not_null NOT NULL,
    total bigint CONSTRAINT topics_record_total_not_null NOT NULL,
    size integer CONSTRAINT topics_record_size_not_null NOT NULL,
    deleted boolean DEFAULT false CONSTRAINT topics_record_deleted_not_null NOT NULL,
    volatile boolean DEFAULT false CONSTRAINT topics_record_volatile_not_null NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json CONSTRAINT topics_record_data_not_null NOT NULL
);


--
-- Name: topics_streamcount; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.topics_streamcount (
    process character varying(32) NOT NULL,
    key_id character varying(100) NOT NULL,
    count integer NOT NULL,
    seen_ts bigint NOT NULL
);


--
-- Name: topics_survived; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.topics_survived (
    alive boolean NOT NULL
);


--
-- Name: topics_topic_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.topics_topic ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_topic_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: topics_watchsession; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_watchsession (
    wid character varying(64) NOT NULL COLLATE pg_catalog."C",
    key_id character varying(100) NOT NULL,
    options text NOT NULL,
    spots text NOT NULL,
    stream bigint NOT NULL,
    open boolean NOT NULL,
    seen_ts bigint NOT NULL,
    created_ts bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');


--
-- Name: topics_record_logged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_logged FOR VALUES IN (false);


--
-- Name: topics_record_volatile; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_volatile FOR VALUES IN (true);


--
-- Name: auth_group auth_group_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);


--
-- Name: auth_group_permissions auth_group_permissions_group_id_permission_id_0cd325b0_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);


--
-- Name: auth_group_permissions auth_group_permissions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);


--
-- Name: auth_group auth_group_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);


--
-- Name: auth_permission auth_permission_content_type_id_codename_01ab375a_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);


--
-- Name: auth_permission auth_permission_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);


--
-- Name: auth_user_groups auth_user_groups_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);


--
-- Name: auth_user_groups auth_user_groups_user_id_group_id_94350c0c_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);


--
-- Name: auth_user auth_user_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);


--
-- Name: auth_user_user_permissions auth_user_user_permissions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);


--
-- Name: auth_user_user_permissions auth_user_user_permissions_user_id_permission_id_14a6b632_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);


--
-- Name: auth_user auth_user_username_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);


--
-- Name: django_admin_log django_admin_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);


--
-- Name: django_content_type django_content_type_app_label_model_76bd3d3b_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);


--
-- Name: django_content_type django_content_type_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);


--
-- Name: django_eventstream_event django_eventstream_event_channel_eid_20f68a1a_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_eventstream_event
    ADD CONSTRAINT django_eventstream_event_channel_eid_20f68a1a_uniq UNIQUE (channel, eid);


--
-- Name: django_eventstream_event django_eventstream_event_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_eventstream_event
    ADD CONSTRAINT django_eventstream_event_pkey PRIMARY KEY (id);


--
-- Name: django_eventstream_eventcounter django_eventstream_eventcounter_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_eventstream_eventcounter
    ADD CONSTRAINT django_eventstream_eventcounter_name_key UNIQUE (name);


--
-- Name: django_eventstream_eventcounter django_eventstream_eventcounter_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_eventstream_eventcounter
    ADD CONSTRAINT django_eventstream_eventcounter_pkey PRIMARY KEY (id);


--
-- Name: django_migrations django_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);


--
-- Name: django_session django_session_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);


--
-- Name: routers_router routers_router_cursor_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_cursor_id_key UNIQUE (cursor_id);


--
-- Name: routers_router routers_router_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_name_key UNIQUE (name);


--
-- Name: routers_router routers_router_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_pkey PRIMARY KEY (id);


--
-- Name: routers_span routers_span_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_span
    ADD CONSTRAINT routers_span_pkey PRIMARY KEY (topic_id, last_seq);


--
-- Name: topics_apikey topics_apikey_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_pkey PRIMARY KEY (id);


--
-- Name: topics_apikey topics_apikey_secret_sha256_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_secret_sha256_key UNIQUE (secret_sha256);


--
-- Name: topics_cursor topics_cursor_owner; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_owner UNIQUE (topic_id, name, kind);


--
-- Name: topics_cursor topics_cursor_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_pkey PRIMARY KEY (id);


--
-- Name: topics_deletedtopic topics_deletedtopic_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_deletedtopic
    ADD CONSTRAINT topics_deletedtopic_pkey PRIMARY KEY (id);


--
-- Name: topics_idempotencykey topics_idempotencykey_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_idempotencykey
    ADD CONSTRAINT topics_idempotencykey_pkey PRIMARY KEY (topic_id, key);


--
-- Name: topics_reclaim topics_reclaim_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_reclaim
    ADD CONSTRAINT topics_reclaim_pkey PRIMARY KEY (topic_id);


--
-- Name: topics_record topics_record_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record
    ADD CONSTRAINT topics_record_pkey PRIMARY KEY (topic_id, seq, volatile);


--
-- Name: topics_record_logged topics_record_logged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record_logged
    ADD CONSTRAINT topics_record_logged_pkey PRIMARY KEY (topic_id, seq, volatile);


--
-- Name: topics_record_volatile topics_record_volatile_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record_volatile
    ADD CONSTRAINT topics_record_volatile_pkey PRIMARY KEY (topic_id, seq, volatile);


--
-- Name: topics_streamcount topics_streamcount_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_streamcount
    ADD CONSTRAINT topics_streamcount_pkey PRIMARY KEY (process, key_id);


--
-- Name: topics_survived topics_survived_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_survived
    ADD CONSTRAINT topics_survived_pkey PRIMARY KEY (alive);


--
-- Name: topics_topic topics_topic_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_topic
    ADD CONSTRAINT topics_topic_name_key UNIQUE (name);


--
-- Name: topics_topic topics_topic_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_topic
    ADD CONSTRAINT topics_topic_pkey PRIMARY KEY (id);


--
-- Name: topics_topichead topics_topichead_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_topichead
    ADD CONSTRAINT topics_topichead_pkey PRIMARY KEY (topic_id);


--
-- Name: topics_watchsession topics_watchsession_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_watchsession
    ADD CONSTRAINT topics_watchsession_pkey PRIMARY KEY (wid);


--
-- Name: auth_group_name_a6ea08ec_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);


--
-- Name: auth_group_permissions_group_id_b120cbf9; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);


--
-- Name: auth_group_permissions_permission_id_84c5c92e; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);


--
-- Name: auth_permission_content_type_id_2f476e4b; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);


--
-- Name: auth_user_groups_group_id_97559544; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);


--
-- Name: auth_user_groups_user_id_6a12ed8b; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);


--
-- Name: auth_user_user_permissions_permission_id_1fbb5f2c; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);


--
-- Name: auth_user_user_permissions_user_id_a95ead1b; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);


--
-- Name: auth_user_username_6821ab7c_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);


--
-- Name: django_admin_log_content_type_id_c4bce8eb; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);


--
-- Name: django_admin_log_user_id_c564eba6; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);


--
-- Name: django_eventstream_event_channel_49bacd5e; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_channel_49bacd5e ON public.django_eventstream_event USING btree (channel);


--
-- Name: django_eventstream_event_channel_49bacd5e_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_channel_49bacd5e_like ON public.django_eventstream_event USING btree (channel varchar_pattern_ops);


--
-- Name: django_eventstream_event_created_039c5d02; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_created_039c5d02 ON public.django_eventstream_event USING btree (created);


--
-- Name: django_eventstream_event_eid_2da5c1c0; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_eid_2da5c1c0 ON public.django_eventstream_event USING btree (eid);


--
-- Name: django_eventstream_event_type_0e7a664e; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_type_0e7a664e ON public.django_eventstream_event USING btree (type);


--
-- Name: django_eventstream_event_type_0e7a664e_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_event_type_0e7a664e_like ON public.django_eventstream_event USING btree (type varchar_pattern_ops);


--
-- Name: django_eventstream_eventcounter_name_3f2f7780_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_eventcounter_name_3f2f7780_like ON public.django_eventstream_eventcounter USING btree (name varchar_pattern_ops);


--
-- Name: django_eventstream_eventcounter_updated_0b6f9a25; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_eventstream_eventcounter_updated_0b6f9a25 ON public.django_eventstream_eventcounter USING btree (updated);


--
-- Name: django_session_expire_date_a5c62663; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);


--
-- Name: django_session_session_key_c0390e0f_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);


--
-- Name: routers_router_dest_id_b18c574d; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_router_dest_id_b18c574d ON public.routers_router USING btree (dest_id);


--
-- Name: routers_router_name_5aaa9ccd_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_router_name_5aaa9ccd_like ON public.routers_router USING btree (name varchar_pattern_ops);


--
-- Name: routers_router_source_id_776074a7; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_router_source_id_776074a7 ON public.routers_router USING btree (source_id);


--
-- Name: routers_span_by_home; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_span_by_home ON public.routers_span USING btree (home_id, home_last_seq);


--
-- Name: routers_span_by_home_in_topic; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_span_by_home_in_topic ON public.routers_span USING btree (home_id, topic_id, home_last_seq);


--
-- Name: routers_span_by_stamp; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_span_by_stamp ON public.routers_span USING btree (topic_id, stamp_router, stamp_source_id, (((stamp_first_seq + last_seq) - first_seq))) WHERE (stamp_router IS NOT NULL);


--
-- Name: routers_span_long; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_span_long ON public.routers_span USING btree (home_id, home_last_seq) WHERE ((home_last_seq - home_first_seq) >= 1000);


--
-- Name: routers_span_lost; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX routers_span_lost ON public.routers_span USING btree (topic_id, last_seq) WHERE (home_id IS NULL);


--
-- Name: topics_idempotency_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_idempotency_by_age ON public.topics_idempotencykey USING btree (ts);


--
-- Name: topics_record_by_tag; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_by_tag ON ONLY public.topics_record USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);


--
-- Name: topics_record_deleted; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_deleted ON ONLY public.topics_record USING btree (topic_id, seq) WHERE deleted;


--
-- Name: topics_record_logged_topic_id_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_logged_topic_id_seq_idx ON public.topics_record_logged USING btree (topic_id, seq) WHERE deleted;


--
-- Name: topics_record_logged_topic_id_tag_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_logged_topic_id_tag_seq_idx ON public.topics_record_logged USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);


--
-- Name: topics_record_volatile_topic_id_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_volatile_topic_id_seq_idx ON public.topics_record_volatile USING btree (topic_id, seq) WHERE deleted;


--
-- Name: topics_record_volatile_topic_id_tag_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_record_volatile_topic_id_tag_seq_idx ON public.topics_record_volatile USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);


--
-- Name: topics_topic_name_6bb046c1_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_topic_name_6bb046c1_like ON public.topics_topic USING btree (name varchar_pattern_ops);


--
-- Name: topics_watchsession_wid_a14954e2_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_watchsession_wid_a14954e2_like ON public.topics_watchsession USING btree (wid varchar_pattern_ops);


--
-- Name: topics_record_logged_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_pkey ATTACH PARTITION public.topics_record_logged_pkey;


--
-- Name: topics_record_logged_topic_id_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_deleted ATTACH PARTITION public.topics_record_logged_topic_id_seq_idx;


--
-- Name: topics_record_logged_topic_id_tag_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_by_tag ATTACH PARTITION public.topics_record_logged_topic_id_tag_seq_idx;


--
-- Name: topics_record_volatile_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_pkey ATTACH PARTITION public.topics_record_volatile_pkey;


--
-- Name: topics_record_volatile_topic_id_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_deleted ATTACH PARTITION public.topics_record_volatile_topic_id_seq_idx;


--
-- Name: topics_record_volatile_topic_id_tag_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.topics_record_by_tag ATTACH PARTITION public.topics_record_volatile_topic_id_tag_seq_idx;


--
-- Name: auth_group_permissions auth_group_permissio_permission_id_84c5c92e_fk_auth_perm; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_group_permissions auth_group_permissions_group_id_b120cbf9_fk_auth_group_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_permission auth_permission_content_type_id_2f476e4b_fk_django_co; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_user_groups auth_user_groups_group_id_97559544_fk_auth_group_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_user_groups auth_user_groups_user_id_6a12ed8b_fk_auth_user_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_user_user_permissions auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: auth_user_user_permissions auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: django_admin_log django_admin_log_content_type_id_c4bce8eb_fk_django_co; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: django_admin_log django_admin_log_user_id_c564eba6_fk_auth_user_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: routers_router routers_router_cursor_id_5e229ffc_fk_topics_cursor_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_cursor_id_5e229ffc_fk_topics_cursor_id FOREIGN KEY (cursor_id) REFERENCES public.topics_cursor(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: routers_router routers_router_dest_id_b18c574d_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_dest_id_b18c574d_fk_topics_topic_id FOREIGN KEY (dest_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: routers_router routers_router_source_id_776074a7_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_source_id_776074a7_fk_topics_topic_id FOREIGN KEY (source_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: topics_cursor topics_cursor_topic_id_90c370d6_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_topic_id_90c370d6_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: topics_idempotencykey topics_idempotencykey_topic_id_5839901c_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_idempotencykey
    ADD CONSTRAINT topics_idempotencykey_topic_id_5839901c_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: topics_topichead topics_topichead_topic_id_84a0b5a0_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_topichead
    ADD CONSTRAINT topics_topichead_topic_id_84a0b5a0_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: TABLE routers_router; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.routers_router TO topics_analyst;


--
-- Name: TABLE routers_span; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.routers_span TO topics_analyst;


--
-- Name: TABLE topics_deletedtopic; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_deletedtopic TO topics_analyst;


--
-- Name: TABLE topics_record; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_record TO topics_analyst;


--
-- Name: TABLE topics_topic; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_topic TO topics_analyst;


--
-- Name: TABLE topics_topichead; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_topichead TO topics_analyst;


--
-- Name: TABLE topic_log; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topic_log TO topics_analyst;


--
-- Name: TABLE topics_cursor; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_cursor TO topics_analyst;


--
-- PostgreSQL database dump complete
--


--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Data for Name: django_content_type; Type: TABLE DATA; Schema: public; Owner: topics
--

INSERT INTO public.django_content_type VALUES (1, 'admin', 'logentry');
INSERT INTO public.django_content_type VALUES (2, 'auth', 'permission');
INSERT INTO public.django_content_type VALUES (3, 'auth', 'group');
INSERT INTO public.django_content_type VALUES (4, 'auth', 'user');
INSERT INTO public.django_content_type VALUES (5, 'contenttypes', 'contenttype');
INSERT INTO public.django_content_type VALUES (6, 'sessions', 'session');
INSERT INTO public.django_content_type VALUES (7, 'django_eventstream', 'event');
INSERT INTO public.django_content_type VALUES (8, 'django_eventstream', 'eventcounter');
INSERT INTO public.django_content_type VALUES (9, 'topics', 'record');
INSERT INTO public.django_content_type VALUES (10, 'topics', 'apikey');
INSERT INTO public.django_content_type VALUES (11, 'topics', 'deletedtopic');
INSERT INTO public.django_content_type VALUES (12, 'topics', 'reclaim');
INSERT INTO public.django_content_type VALUES (13, 'topics', 'topic');
INSERT INTO public.django_content_type VALUES (14, 'topics', 'topichead');
INSERT INTO public.django_content_type VALUES (15, 'topics', 'idempotencykey');
INSERT INTO public.django_content_type VALUES (16, 'topics', 'cursor');
INSERT INTO public.django_content_type VALUES (17, 'topics', 'watchsession');
INSERT INTO public.django_content_type VALUES (18, 'topics', 'streamcount');
INSERT INTO public.django_content_type VALUES (19, 'routers', 'router');
INSERT INTO public.django_content_type VALUES (20, 'routers', 'span');


--
-- Data for Name: auth_permission; Type: TABLE DATA; Schema: public; Owner: topics
--

INSERT INTO public.auth_permission VALUES (1, 'Can add log entry', 1, 'add_logentry');
INSERT INTO public.auth_permission VALUES (2, 'Can change log entry', 1, 'change_logentry');
INSERT INTO public.auth_permission VALUES (3, 'Can delete log entry', 1, 'delete_logentry');
INSERT INTO public.auth_permission VALUES (4, 'Can view log entry', 1, 'view_logentry');
INSERT INTO public.auth_permission VALUES (5, 'Can add permission', 2, 'add_permission');
INSERT INTO public.auth_permission VALUES (6, 'Can change permission', 2, 'change_permission');
INSERT INTO public.auth_permission VALUES (7, 'Can delete permission', 2, 'delete_permission');
INSERT INTO public.auth_permission VALUES (8, 'Can view permission', 2, 'view_permission');
INSERT INTO public.auth_permission VALUES (9, 'Can add group', 3, 'add_group');
INSERT INTO public.auth_permission VALUES (10, 'Can change group', 3, 'change_group');
INSERT INTO public.auth_permission VALUES (11, 'Can delete group', 3, 'delete_group');
INSERT INTO public.auth_permission VALUES (12, 'Can view group', 3, 'view_group');
INSERT INTO public.auth_permission VALUES (13, 'Can add user', 4, 'add_user');
INSERT INTO public.auth_permission VALUES (14, 'Can change user', 4, 'change_user');
INSERT INTO public.auth_permission VALUES (15, 'Can delete user', 4, 'delete_user');
INSERT INTO public.auth_permission VALUES (16, 'Can view user', 4, 'view_user');
INSERT INTO public.auth_permission VALUES (17, 'Can add content type', 5, 'add_contenttype');
INSERT INTO public.auth_permission VALUES (18, 'Can change content type', 5, 'change_contenttype');
INSERT INTO public.auth_permission VALUES (19, 'Can delete content type', 5, 'delete_contenttype');
INSERT INTO public.auth_permission VALUES (20, 'Can view content type', 5, 'view_contenttype');
INSERT INTO public.auth_permission VALUES (21, 'Can add session', 6, 'add_session');
INSERT INTO public.auth_permission VALUES (22, 'Can change session', 6, 'change_session');
INSERT INTO public.auth_permission VALUES (23, 'Can delete session', 6, 'delete_session');
INSERT INTO public.auth_permission VALUES (24, 'Can view session', 6, 'view_session');
INSERT INTO public.auth_permission VALUES (25, 'Can add event', 7, 'add_event');
INSERT INTO public.auth_permission VALUES (26, 'Can change event', 7, 'change_event');
INSERT INTO public.auth_permission VALUES (27, 'Can delete event', 7, 'delete_event');
INSERT INTO public.auth_permission VALUES (28, 'Can view event', 7, 'view_event');
INSERT INTO public.auth_permission VALUES (29, 'Can add event counter', 8, 'add_eventcounter');
INSERT INTO public.auth_permission VALUES (30, 'Can change event counter', 8, 'change_eventcounter');
INSERT INTO public.auth_permission VALUES (31, 'Can delete event counter', 8, 'delete_eventcounter');
INSERT INTO public.auth_permission VALUES (32, 'Can view event counter', 8, 'view_eventcounter');
INSERT INTO public.auth_permission VALUES (33, 'Can add record', 9, 'add_record');
INSERT INTO public.auth_permission VALUES (34, 'Can change record', 9, 'change_record');
INSERT INTO public.auth_permission VALUES (35, 'Can delete record', 9, 'delete_record');
INSERT INTO public.auth_permission VALUES (36, 'Can view record', 9, 'view_record');
INSERT INTO public.auth_permission VALUES (37, 'Can add API key', 10, 'add_apikey');
INSERT INTO public.auth_permission VALUES (38, 'Can change API key', 10, 'change_apikey');
INSERT INTO public.auth_permission VALUES (39, 'Can delete API key', 10, 'delete_apikey');
INSERT INTO public.auth_permission VALUES (40, 'Can view API key', 10, 'view_apikey');
INSERT INTO public.auth_permission VALUES (41, 'Can add deleted topic', 11, 'add_deletedtopic');
INSERT INTO public.auth_permission VALUES (42, 'Can change deleted topic', 11, 'change_deletedtopic');
INSERT INTO public.auth_permission VALUES (43, 'Can delete deleted topic', 11, 'delete_deletedtopic');
INSERT INTO public.auth_permission VALUES (44, 'Can view deleted topic', 11, 'view_deletedtopic');
INSERT INTO public.auth_permission VALUES (45, 'Can add reclaim', 12, 'add_reclaim');
INSERT INTO public.auth_permission VALUES (46, 'Can change reclaim', 12, 'change_reclaim');
INSERT INTO public.auth_permission VALUES (47, 'Can delete reclaim', 12, 'delete_reclaim');
INSERT INTO public.auth_permission VALUES (48, 'Can view reclaim', 12, 'view_reclaim');
INSERT INTO public.auth_permission VALUES (49, 'Can add topic', 13, 'add_topic');
INSERT INTO public.auth_permission VALUES (50, 'Can change topic', 13, 'change_topic');
INSERT INTO public.auth_permission VALUES (51, 'Can delete topic', 13, 'delete_topic');
INSERT INTO public.auth_permission VALUES (52, 'Can view topic', 13, 'view_topic');
INSERT INTO public.auth_permission VALUES (53, 'Can add topic head', 14, 'add_topichead');
INSERT INTO public.auth_permission VALUES (54, 'Can change topic head', 14, 'change_topichead');
INSERT INTO public.auth_permission VALUES (55, 'Can delete topic head', 14, 'delete_topichead');
INSERT INTO public.auth_permission VALUES (56, 'Can view topic head', 14, 'view_topichead');
INSERT INTO public.auth_permission VALUES (57, 'Can add idempotency key', 15, 'add_idempotencykey');
INSERT INTO public.auth_permission VALUES (58, 'Can change idempotency key', 15, 'change_idempotencykey');
INSERT INTO public.auth_permission VALUES (59, 'Can delete idempotency key', 15, 'delete_idempotencykey');
INSERT INTO public.auth_permission VALUES (60, 'Can view idempotency key', 15, 'view_idempotencykey');
INSERT INTO public.auth_permission VALUES (61, 'Can add cursor', 16, 'add_cursor');
INSERT INTO public.auth_permission VALUES (62, 'Can change cursor', 16, 'change_cursor');
INSERT INTO public.auth_permission VALUES (63, 'Can delete cursor', 16, 'delete_cursor');
INSERT INTO public.auth_permission VALUES (64, 'Can view cursor', 16, 'view_cursor');
INSERT INTO public.auth_permission VALUES (65, 'Can add watch session', 17, 'add_watchsession');
INSERT INTO public.auth_permission VALUES (66, 'Can change watch session', 17, 'change_watchsession');
INSERT INTO public.auth_permission VALUES (67, 'Can delete watch session', 17, 'delete_watchsession');
INSERT INTO public.auth_permission VALUES (68, 'Can view watch session', 17, 'view_watchsession');
INSERT INTO public.auth_permission VALUES (69, 'Can add stream count', 18, 'add_streamcount');
INSERT INTO public.auth_permission VALUES (70, 'Can change stream count', 18, 'change_streamcount');
INSERT INTO public.auth_permission VALUES (71, 'Can delete stream count', 18, 'delete_streamcount');
INSERT INTO public.auth_permission VALUES (72, 'Can view stream count', 18, 'view_streamcount');
INSERT INTO public.auth_permission VALUES (73, 'Can add router', 19, 'add_router');
INSERT INTO public.auth_permission VALUES (74, 'Can change router', 19, 'change_router');
INSERT INTO public.auth_permission VALUES (75, 'Can delete router', 19, 'delete_router');
INSERT INTO public.auth_permission VALUES (76, 'Can view router', 19, 'view_router');
INSERT INTO public.auth_permission VALUES (77, 'Can add span', 20, 'add_span');
INSERT INTO public.auth_permission VALUES (78, 'Can change span', 20, 'change_span');
INSERT INTO public.auth_permission VALUES (79, 'Can delete span', 20, 'delete_span');
INSERT INTO public.auth_permission VALUES (80, 'Can view span', 20, 'view_span');


--
-- Data for Name: django_migrations; Type: TABLE DATA; Schema: public; Owner: topics
--

INSERT INTO public.django_migrations VALUES (1, 'contenttypes', '0001_initial', '2026-11-22 02:32:22.830772+00');
INSERT INTO public.django_migrations VALUES (2, 'auth', '0001_initial', '2026-11-22 02:32:22.871125+00');
INSERT INTO public.django_migrations VALUES (3, 'admin', '0001_initial', '2026-11-22 02:32:22.89427+00');
INSERT INTO public.django_migrations VALUES (4, 'admin', '0002_logentry_remove_auto_add', '2026-11-22 02:32:22.905006+00');
INSERT INTO public.django_migrations VALUES (5, 'admin', '0003_logentry_add_action_flag_choices', '2026-11-22 02:32:22.921584+00');
INSERT INTO public.django_migrations VALUES (6, 'contenttypes', '0002_remove_content_type_name', '2026-11-22 02:32:22.944174+00');
INSERT INTO public.django_migrations VALUES (7, 'auth', '0002_alter_permission_name_max_length', '2026-11-22 02:32:22.961368+00');
INSERT INTO public.django_migrations VALUES (8, 'auth', '0003_alter_user_email_max_length', '2026-11-22 02:32:22.978019+00');
INSERT INTO public.django_migrations VALUES (9, 'auth', '0004_alter_user_username_opts', '2026-11-22 02:32:22.993096+00');
INSERT INTO public.django_migrations VALUES (10, 'auth', '0005_alter_user_last_login_null', '2026-11-22 02:32:23.003193+00');
INSERT INTO public.django_migrations VALUES (11, 'auth', '0006_require_contenttypes_0002', '2026-11-22 02:32:23.013196+00');
INSERT INTO public.django_migrations VALUES (12, 'auth', '0007_alter_validators_add_error_messages', '2026-11-22 02:32:23.02403+00');
INSERT INTO public.django_migrations VALUES (13, 'auth', '0008_alter_user_username_max_length', '2026-11-22 02:32:23.042374+00');
INSERT INTO public.django_migrations VALUES (14, 'auth', '0009_alter_user_last_name_max_length', '2026-11-22 02:32:23.057624+00');
INSERT INTO public.django_migrations VALUES (15, 'auth', '0010_alter_group_name_max_length', '2026-11-22 02:32:23.078635+00');
INSERT INTO public.django_migrations VALUES (16, 'auth', '0011_update_proxy_permissions', '2026-11-22 02:32:23.092251+00');
INSERT INTO public.django_migrations VALUES (17, 'auth', '0012_alter_user_first_name_max_length', '2026-11-22 02:32:23.110097+00');
INSERT INTO public.django_migrations VALUES (18, 'django_eventstream', '0001_initial', '2026-11-22 02:32:23.136648+00');
INSERT INTO public.django_migrations VALUES (19, 'topics', '0001_tables', '2026-11-22 02:32:23.217022+00');
INSERT INTO public.django_migrations VALUES (20, 'routers', '0001_tables', '2026-11-22 02:32:23.273113+00');
INSERT INTO public.django_migrations VALUES (21, 'topics', '0002_store', '2026-11-22 02:32:23.34321+00');
INSERT INTO public.django_migrations VALUES (22, 'routers', '0002_forwarding', '2026-11-22 02:32:23.364936+00');
INSERT INTO public.django_migrations VALUES (23, 'sessions', '0001_initial', '2026-11-22 02:32:23.379768+00');
INSERT INTO public.django_migrations VALUES (24, 'topics', '0003_watch', '2026-11-22 02:32:23.405189+00');


--
-- Data for Name: topics_survived; Type: TABLE DATA; Schema: public; Owner: topics
--

INSERT INTO public.topics_survived VALUES (true);


--
-- Name: auth_permission_id_seq; Type: SEQUENCE SET; Schema: public; Owner: topics
--

SELECT pg_catalog.setval('public.auth_permission_id_seq', 80, true);


--
-- Name: django_content_type_id_seq; Type: SEQUENCE SET; Schema: public; Owner: topics
--

SELECT pg_catalog.setval('public.django_content_type_id_seq', 20, true);


--
-- Name: django_migrations_id_seq; Type: SEQUENCE SET; Schema: public; Owner: topics
--

SELECT pg_catalog.setval('public.django_migrations_id_seq', 24, true);


--
-- PostgreSQL database dump complete
--


