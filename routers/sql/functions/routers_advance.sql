-- Forwards the records of a source to its routers, all of them (p_dest_id NULL) or those into one dest, in one transaction.
-- Spans, heads of the dests and cursors of the routers change together, so a crash neither loses nor repeats a record.
--
-- Locks, in this order: ADVANCE_LOCK (7001) shared, which keeps out only reclaim. Then the cursors of the routers that lag, in
-- order of id. Then the heads of the dests, in order of topic. Router rows are written under the lock of their cursor. The
-- source is not locked, because its head and all seqs below it are committed. A reader waits (p_wait) for another advance of
-- the cursor. A worker does not wait and leaves that router to the other advance, which looks again at its end.
--
-- Returns a row for each router that advanced: the head of its dest, whether this head advanced, and whether routers lead on
-- from the dest. `more` is true if the router has not reached the source's head after p_limit seqs. All routers that are
-- advanced one by one share this limit.
--
-- A sealed dest takes no records. The function reads the seal under the dest's head, which the PUT that seals it holds until
-- its commit.
CREATE OR REPLACE FUNCTION routers_advance(
    p_source_id bigint, p_dest_id bigint, p_wait boolean, p_limit bigint, p_now bigint, p_max_hops integer
) RETURNS TABLE (dest_id bigint, dest_head bigint, moved boolean, routed boolean, more boolean)
LANGUAGE plpgsql SET enable_seqscan = off AS $$  -- this and OFFSET 0 make the plan use indexes, even if these are most of all routers
#variable_conflict use_column
DECLARE
    taken   bigint[];  -- routers whose cursors this call holds
    plain   bigint[];
    careful bigint[];  -- those of them that advance one by one
    synced  boolean;   -- whether any of their dests is fsync
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
    PERFORM FROM (SELECT DISTINCT r.dest_id FROM routers_router r WHERE r.id = ANY (taken) ORDER BY r.dest_id) dest
      CROSS JOIN LATERAL (SELECT FROM topics_topichead WHERE topic_id = dest.dest_id LIMIT 1 FOR UPDATE) head;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_source_id;

    -- These routers can advance together: from the cursor on all seqs are the source's own records without a hole, and the dest
    -- takes all of them from this router alone. Whether a router may run is read again, because an operator can have paused it
    -- while this call waited for its cursor.
    SELECT array_agg(id ORDER BY id) FILTER (WHERE alike), array_agg(id ORDER BY id) FILTER (WHERE NOT alike), bool_or(fsync)
      INTO plain, careful, synced
      FROM (SELECT r.id, c.seq >= head.holes_seq AND c.seq >= head.floor_seq AND source.ttl_ms = 0 AND r.filter_op IS NULL
                         AND NOT r.cyclic AND r.guarantee <> 'exactly_once' AND dest.cap_records = 0 AND dest.cap_bytes = 0 AND NOT dest.sealed
                         AND count(*) OVER (PARTITION BY r.dest_id) = 1 AS alike,
                   dest.durability = 'fsync' AS fsync
              FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
              JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
             WHERE r.id = ANY (taken) AND c.seq < head.head_seq AND router_due(r, p_now)) router;
    -- A crash takes back span, head and cursor together, and the next advance repeats them. So only an fsync dest waits for the
    -- disk, and a dest whose head passes reserved_seq (topic_reserve switches the wait on again for this transaction).
    IF synced IS FALSE THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    RETURN QUERY
    WITH router AS (
        SELECT r.id, r.name, r.state, r.cursor_id, r.dest_id, r.preserve_node, r.preserve_tag, c.seq AS after, head.head_seq - c.seq AS records
          FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
         WHERE r.id = ANY (plain)),
    sized AS (
        SELECT after, topic_range_bytes(p_source_id, after + 1, head.head_seq) AS bytes FROM (SELECT DISTINCT after FROM router) distances),
    placed AS (
        SELECT router.*, sized.bytes, greatest(dest.last_ts, p_now) AS ts, dest.head_seq AS base, dest.era
          FROM router JOIN sized USING (after)
         CROSS JOIN LATERAL (SELECT * FROM topics_topichead WHERE topic_id = router.dest_id LIMIT 1) dest),
    spans AS (  -- at most 100,000 seqs, so a search for the spans over a record is bounded
        INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
        SELECT dest_id, base + n + 1, base + least(n + 100000, records), p_source_id, after + n + 1, after + least(n + 100000, records),
               ts, true, preserve_node, preserve_tag, ARRAY[name]
          FROM placed CROSS JOIN LATERAL generate_series(0, records - 1, 100000) n),
    heads AS (
        UPDATE topics_topichead dest
           SET head_seq = dest.head_seq + placed.records, era = topic_era(dest.head_seq + placed.records), holes_seq = dest.head_seq + placed.records,
               count = dest.count + placed.records, bytes = dest.bytes + placed.bytes, last_ts = placed.ts,
               reserved_seq = topic_reserve(dest.head_seq + placed.records, dest.reserved_seq), unsettled = true
          FROM placed
         WHERE dest.topic_id >= placed.dest_id AND (dest.topic_id, dest.era) <= (placed.dest_id, placed.era)
        RETURNING dest.topic_id, dest.head_seq),
    cursors AS (
        UPDATE topics_cursor c SET seq = head.head_seq, forwarded_total = c.forwarded_total + placed.records, updated_ts = p_now
          FROM placed WHERE c.id = placed.cursor_id),
    running AS (
        UPDATE routers_router r SET state = 'running', last_error = NULL, retry_bytes = NULL, retry_ms = 0, retry_ts = 0
          FROM placed WHERE r.id = placed.id AND placed.state = 'blocked')
    SELECT topic_id, head_seq, true, EXISTS (SELECT FROM routers_router onward WHERE onward.source_id = topic_id OFFSET 0), false
      FROM heads;

    IF careful IS NULL THEN
        RETURN;
    END IF;
    FOR router IN SELECT r.id, r.dest_id, r.cursor_id, r.state, c.seq AS cursor_seq, dest.head_seq AS head_before
                    FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
                   CROSS JOIN LATERAL (SELECT head_seq FROM topics_topichead WHERE topic_id = r.dest_id LIMIT 1) dest
                   WHERE r.id = ANY (careful) ORDER BY r.id LOOP
        SELECT 0::bigint AS forwarded, router.cursor_seq AS cursor_seq, NULL::text AS blocked, NULL::bigint AS rejected INTO done;
        IF budget > 0 THEN
            BEGIN
                SELECT forwarded, cursor_seq, blocked, rejected INTO done FROM router_forward(router.id, budget, p_now, p_max_hops);
            EXCEPTION WHEN OTHERS THEN
                -- An error of one router does not stop the others. An error of the transaction or the server is raised.
                IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') THEN
                    RAISE;
                END IF;
                SELECT 0::bigint AS forwarded, router.cursor_seq AS cursor_seq, SQLERRM AS blocked, NULL::bigint AS rejected INTO done;
            END;
            PERFORM router_moved(router.id, router.cursor_id, done.forwarded, done.cursor_seq, done.blocked, done.rejected, p_now);
            budget := budget - (done.cursor_seq - router.cursor_seq);
        END IF;
        SELECT router.dest_id, dest.head_seq, dest.head_seq > router.head_before,
               EXISTS (SELECT FROM routers_router onward WHERE onward.source_id = router.dest_id OFFSET 0),
               done.blocked IS NULL AND done.cursor_seq < head.head_seq
          INTO dest_id, dest_head, moved, routed, more
          FROM topics_topichead dest WHERE dest.topic_id = router.dest_id;
        IF moved OR done.blocked IS NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
