-- Forwards into a queue whose events come from several bus topics, in the order in which they were published, over all of these
-- topics. A step takes at most p_limit seqs of each source, and copies no payload. routers_advance leaves out
-- these routers (`ordered`, router_due), because it advances one source at a time, and cannot compare the sources of a dest.
--
-- The order of publishing means: if an event was acknowledged before another one was sent, it comes first. No clock decides
-- this. An acknowledged event is committed, and a later writer has a higher transaction id. So events are taken in order of
-- xmin. In a topic, whose head gives out the seqs, an event counts as young as the youngest event at or before it. So topics
-- keep their own order, and no event passes one that was acknowledged before it. One statement reads all sources, and sees an
-- event only together with all events that were acknowledged before it.
--
-- The locks are those of routers_advance: 7001 shared, the cursors of the routers in order of id, the queue's head. `ordered`
-- tells whether the queue is such a queue.
CREATE OR REPLACE FUNCTION push_fill(
    p_queue_id bigint, p_limit bigint, p_now bigint,
    OUT ordered boolean, OUT queue_head bigint, OUT moved boolean, OUT more boolean
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    behind  boolean;
    lossy   record;
    entries topics_span[];
    target  topics_topichead;
    queue   topics_topic;
    records bigint;
    payload bigint;
BEGIN
    moved := false;
    more := false;
    SELECT coalesce(bool_or(r.ordered), false), coalesce(bool_or(r.ordered AND r.state <> 'paused' AND c.seq < h.head_seq), false)
      INTO ordered, behind
      FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead h ON h.topic_id = r.source_id
     WHERE r.dest_id = p_queue_id;
    IF NOT behind THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7001);
    PERFORM FROM topics_cursor
      WHERE id = ANY (ARRAY(SELECT cursor_id FROM routers_router r WHERE r.dest_id = p_queue_id AND r.ordered)) ORDER BY id FOR UPDATE;
    PERFORM FROM topics_topichead WHERE topic_id = p_queue_id LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);  -- a crash takes back spans, head and cursors together

    -- The queue also tells the records that a source lost before they were forwarded.
    FOR lossy IN SELECT r.name, c.seq AS after, least(h.floor_seq, greatest(h.cap_lost_seq, h.ttl_lost_seq, h.restart_lost_seq)) AS told
                   FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead h ON h.topic_id = r.source_id
                  WHERE r.dest_id = p_queue_id AND r.ordered AND r.state <> 'paused' LOOP
        IF lossy.told > lossy.after THEN
            PERFORM router_lose(p_queue_id, lossy.told - lossy.after, p_now, ARRAY[lossy.name::text]);
        END IF;
    END LOOP;

    WITH source AS MATERIALIZED (
        SELECT r.id, r.name, r.cursor_id, r.source_id, r.preserve_node, r.preserve_tag, h.head_seq,
               greatest(c.seq, h.floor_seq) AS after, least(h.head_seq, greatest(c.seq, h.floor_seq) + p_limit) AS upto
          FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead h ON h.topic_id = r.source_id
         WHERE r.dest_id = p_queue_id AND r.ordered AND r.state <> 'paused' AND c.seq < h.head_seq),
    shown AS (  -- the events that the sources show
        SELECT source.id, own.seq, source.source_id AS home_id, own.seq AS home_seq, true AS keep_node, true AS keep_tag,
               '{}'::text[] AS path, age(own.xmin) AS age
          FROM source
         CROSS JOIN LATERAL (SELECT seq, xmin FROM topics_record
                              WHERE topic_id = source.source_id AND seq > source.after AND seq <= source.upto AND NOT deleted OFFSET 0) own
        UNION ALL
        SELECT source.id, span.first_seq + n, span.home_id, span.home_first_seq + n, span.keep_node, span.keep_tag, span.path, age(span.xmin)
          FROM source
         CROSS JOIN LATERAL (SELECT *, xmin FROM topics_span  -- a span has at most 100,000 seqs
                              WHERE topic_id = source.source_id AND last_seq > source.after AND last_seq <= source.upto + 100000
                                AND first_seq <= source.upto AND shown AND home_id <> p_queue_id OFFSET 0) span
         CROSS JOIN LATERAL generate_series(greatest(source.after + 1 - span.first_seq, 0),
                                            least(source.upto, span.last_seq) - span.first_seq) n),
    event AS MATERIALIZED (
        SELECT *, min(age) OVER (PARTITION BY id ORDER BY seq) AS since FROM shown),
    -- A source with more events than a step can continue with events that are older than those of the others, which wait for it.
    edge AS MATERIALIZED (
        SELECT max(coalesce((SELECT since FROM event WHERE event.id = source.id ORDER BY seq DESC LIMIT 1), 2147483647)) AS since
          FROM source WHERE upto < head_seq),
    taken AS MATERIALIZED (
        SELECT event.* FROM event, edge WHERE edge.since IS NULL OR event.since >= edge.since),
    reached AS (
        SELECT source.cursor_id, source.head_seq, count(taken.seq) AS records,
               CASE WHEN count(taken.seq) = (SELECT count(*) FROM event WHERE event.id = source.id) THEN source.upto
                    ELSE coalesce(max(taken.seq), source.after) END AS seq
          FROM source LEFT JOIN taken ON taken.id = source.id
         GROUP BY source.id, source.cursor_id, source.head_seq, source.upto, source.after),
    cursors AS (
        UPDATE topics_cursor c
           SET seq = reached.seq, forwarded_total = c.forwarded_total + reached.records, updated_ts = p_now
          FROM reached WHERE c.id = reached.cursor_id)
    SELECT (SELECT array_agg(ROW (p_queue_id, taken.seq, taken.seq, home_id, home_seq, home_seq, 0, true,
                                  keep_node AND source.preserve_node, keep_tag AND source.preserve_tag, path || source.name,
                                  NULL, NULL, NULL, NULL)::topics_span ORDER BY since DESC, source.source_id, taken.seq)
              FROM taken JOIN source ON source.id = taken.id),
           (SELECT bool_or(seq < head_seq) FROM reached)
      INTO entries, more;
    more := coalesce(more, false);
    SELECT * INTO target FROM topics_topichead WHERE topic_id = p_queue_id;
    queue_head := target.head_seq;
    IF entries IS NULL THEN
        RETURN;
    END IF;

    WITH spans AS (
        INSERT INTO topics_span (topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
        SELECT topic_id, target.head_seq + last_seq, target.head_seq + first_seq, home_id, home_first_seq, home_last_seq,
               greatest(target.last_ts, p_now), shown, keep_node, keep_tag, path
          FROM router_joined(entries)
        RETURNING *)
    SELECT sum(last_seq - first_seq + 1), sum(topic_range_bytes(home_id, home_first_seq, home_last_seq)), max(last_seq)
      INTO records, payload, queue_head
      FROM spans;
    UPDATE topics_topichead
       SET head_seq = queue_head, era = topic_era(queue_head), holes_seq = queue_head, count = count + records, bytes = bytes + payload,
           last_ts = greatest(last_ts, p_now), reserved_seq = topic_reserve(queue_head, reserved_seq), unsettled = true
     WHERE topic_id = p_queue_id AND era <= target.era;
    SELECT * INTO queue FROM topics_topic WHERE id = p_queue_id;
    IF queue.cap_records > 0 OR queue.cap_bytes > 0 THEN
        PERFORM topic_evict(p_queue_id, queue.cap_records, queue.cap_bytes, CASE WHEN queue.ttl_ms > 0 THEN p_now - queue.ttl_ms END,
                            records, payload);
    END IF;
    moved := true;
END
$$;
