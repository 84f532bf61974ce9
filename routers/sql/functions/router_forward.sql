-- Forwards one router by at most p_limit source seqs. It does what routers_advance cannot do for many routers at once: filters,
-- cycles, exactly_once, capped dests, and sources with holes, spans or losses. It copies no payload.
--
-- The caller holds ADVANCE_LOCK shared, the router's cursor and the dest's head. Returns the number of forwarded records, the
-- cursor, and why the cursor did not advance (NULL: it advanced). A full dest rejected a record of `rejected` bytes. A sealed
-- dest rejects every record (0 bytes).
--
-- Each step is a function:
--     router_runs      the records that the source shows, as runs of home records
--     router_unheld    for a router on a cycle: without the records that the dest has or had
--     router_unsent    for exactly_once: without the records that this router brought before
--     router_fitting   for a dest that rejects: as many as fit
--     router_joined    joins entries that continue one another into one span
--
-- Each step sees the commits until its begin, and still finds what the step before saw: the dest's spans change only under its
-- head's lock, and reclaim, which deletes rows of homes, is kept out (7001).
--
-- One plan serves all values, because planning each call took longer than the work.
CREATE OR REPLACE FUNCTION router_forward(
    p_router_id bigint, p_limit bigint, p_now bigint, p_max_hops integer,
    OUT forwarded bigint, OUT cursor_seq bigint, OUT blocked text, OUT rejected bigint
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
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
    entries topics_span[];
    new_bytes bigint;
    new_head  bigint;
BEGIN
    -- The source is not locked. One read of its head is one state, and all seqs up to this head are committed. The router is read
    -- after it: a cycle brought records into the source only after `cyclic` was set.
    SELECT head.* INTO head FROM topics_topichead head JOIN routers_router r ON r.source_id = head.topic_id WHERE r.id = p_router_id;
    SELECT * INTO router FROM routers_router WHERE id = p_router_id;
    SELECT * INTO source FROM topics_topic WHERE id = router.source_id;
    SELECT * INTO dest FROM topics_topic WHERE id = router.dest_id;
    SELECT seq INTO after FROM topics_cursor WHERE id = router.cursor_id;
    IF dest.sealed THEN  -- the dest gets no records and no losses: the source keeps them
        forwarded := 0;
        cursor_seq := after;
        blocked := format('dest %s is sealed: it takes no records', dest.name);
        rejected := 0;
        RETURN;
    END IF;
    once := router.guarantee = 'exactly_once';
    reject := dest.discard = 'reject' AND (dest.cap_records > 0 OR dest.cap_bytes > 0);

    -- The dest tells the records that the source lost before this call. It does not tell deleted records.
    IF source.ttl_ms > 0 THEN
        cut := topic_seq_at(source.id, head.floor_seq, head.head_seq, p_now - source.ttl_ms) - 1;
        IF cut > head.floor_seq THEN  -- as topic_expire will leave it
            head.ttl_lost_seq := CASE WHEN cut > head.holes_seq THEN cut ELSE topic_last_live(source.id, head.floor_seq, cut) END;
            head.floor_seq := cut;
        END IF;
    END IF;
    told := greatest(after, least(head.floor_seq, greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq)));
    IF told > after THEN
        PERFORM router_lose(dest.id, told - after, p_now, ARRAY[router.name]);
    END IF;
    after := greatest(after, head.floor_seq);
    upto := least(head.head_seq, after + p_limit);

    IF dest.ttl_ms > 0 AND (once OR dest.cap_records > 0 OR dest.cap_bytes > 0) THEN  -- an expired record is no evidence, and needs no room
        PERFORM topic_expire(dest.id, p_now - dest.ttl_ms);
    END IF;
    SELECT * INTO target FROM topics_topichead WHERE topic_id = dest.id;

    -- The records that the source shows, as the dest will show them. No record returns to its home topic. An entry is a future span
    -- of the dest, with the first_seq and last_seq of the source. It is a run, or one record if a later step examines each record.
    -- The stamp of an exactly_once router replaces the stamp before.
    entries := ARRAY(
        SELECT ROW (dest.id, CASE WHEN single THEN run.first_seq + n ELSE run.last_seq END, run.first_seq + n,
                    home_id, home_first_seq + n, home_first_seq + CASE WHEN single THEN n ELSE run.last_seq - run.first_seq END,
                    0, home_id IS NOT NULL, keep_node AND router.preserve_node, keep_tag AND router.preserve_tag,
                    path || router.name,
                    CASE WHEN stamps THEN router.name ELSE stamp_router END,
                    CASE WHEN stamps THEN source.name WHEN stamp_router IS NOT NULL THEN stamp_source END,
                    CASE WHEN stamps THEN source.id WHEN stamp_router IS NOT NULL THEN stamp_source_id END,
                    CASE WHEN stamps THEN run.first_seq WHEN stamp_router IS NOT NULL THEN stamp_first_seq END + n)::topics_span
          FROM (SELECT *, home_id IS NOT NULL AND once AS stamps,
                       home_id IS NOT NULL AND (router.cyclic OR once OR reject) AS single
                  FROM router_runs(source.id, head.holes_seq, told, after, upto, router.filter_op, router.filter_tag,
                                   CASE WHEN router.cyclic THEN p_max_hops END)
                 WHERE home_id IS DISTINCT FROM dest.id) run
         CROSS JOIN LATERAL generate_series(0, CASE WHEN single THEN run.last_seq - run.first_seq ELSE 0 END) n
         ORDER BY run.first_seq + n);
    -- Keep the entries that are new to the dest, and then those that fit. A router without such a condition skips these steps.
    IF router.cyclic THEN
        entries := ARRAY(SELECT entry FROM router_unheld(entries, dest.id) entry);
    END IF;
    IF once THEN
        entries := ARRAY(SELECT entry FROM router_unsent(entries, router, target.floor_seq, after, upto) entry);
    END IF;
    cursor_seq := upto;
    IF reject THEN
        SELECT f.upto, f.rejected INTO cut, rejected FROM router_fitting(
            entries, CASE WHEN dest.cap_records > 0 THEN dest.cap_records - target.count END,
            CASE WHEN dest.cap_bytes > 0 THEN dest.cap_bytes - target.bytes END) f;
        IF cut IS NOT NULL THEN
            cursor_seq := cut;
            entries := ARRAY(SELECT entry FROM unnest(entries) entry WHERE (entry).first_seq <= cut);
        END IF;
    END IF;

    WITH spans AS (
        INSERT INTO topics_span (topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag,
                                  path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
        SELECT topic_id, target.head_seq + last_seq, target.head_seq + first_seq, home_id, home_first_seq, home_last_seq,
               greatest(target.last_ts, p_now), shown, keep_node, keep_tag, path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq
          FROM router_joined(entries)
        RETURNING *)
    SELECT coalesce(sum(last_seq - first_seq + 1) FILTER (WHERE shown), 0),
           coalesce(sum(topic_range_bytes(home_id, home_first_seq, home_last_seq)) FILTER (WHERE shown), 0),
           coalesce(max(last_seq), target.head_seq)
      INTO forwarded, new_bytes, new_head
      FROM spans;

    UPDATE topics_topichead
       SET head_seq = new_head, era = topic_era(new_head), holes_seq = new_head, count = count + forwarded, bytes = bytes + new_bytes,
           last_ts = greatest(last_ts, p_now), reserved_seq = topic_reserve(new_head, reserved_seq), unsettled = true
     WHERE topic_id = dest.id AND era <= target.era AND head_seq < new_head;
    IF target.count = 0 AND new_head > target.floor_seq THEN  -- no record was live: a loss at the front is below the floor
        PERFORM topic_shrink(dest.id, target.floor_seq, 0, 0);
    END IF;
    IF dest.discard = 'old' AND (dest.cap_records > 0 OR dest.cap_bytes > 0) THEN
        PERFORM topic_evict(dest.id, dest.cap_records, dest.cap_bytes, CASE WHEN dest.ttl_ms > 0 THEN p_now - dest.ttl_ms END,
                            forwarded, new_bytes);
    END IF;
    IF cursor_seq < upto THEN
        SELECT format('dest %s is full (records: %s, bytes: %s)', dest.name, h.count, h.bytes)
          INTO blocked FROM topics_topichead h WHERE topic_id = dest.id;
    END IF;
END
$$;
