-- Claims jobs of a queue for several claimers at once: at most p_maxes[n] jobs for the node p_nodes[n], each for p_lease_ms[n].
-- p_even deals the jobs out one by one. Otherwise the first claimer gets all that it wants, then the second. p_deliveries is the
-- most deliveries of a job (NULL: any number).
--
-- Returns a row for each claimed job, in order of seq: the claimer n (from 1), the seq, and the job as JSON. A row with n = 0 has
-- the number of ready jobs in `seq`. A row with n = -1 has the seq of a job that was delivered too often: it is leased to no node
-- for a minute, in which the caller moves it (queue_dead). If p_version is not the current version, it returns no row.
--
-- Leases that ended come first, by deadline: a range of an index that starts at low_ts. Then come the next jobs above next_seq: a
-- range of the primary key of the records. So a claim passes no job that is in flight, and none that is done.
CREATE OR REPLACE FUNCTION queue_claim(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_deliveries integer,
    p_nodes text[], p_maxes integer[], p_lease_ms bigint[], p_even boolean
) RETURNS TABLE (n integer, seq bigint, job text)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    head   topics_topichead;
    now    bigint;
    wanted integer := (SELECT sum(most) FROM unnest(p_maxes) most);
    ended  record;
    back   bigint[] := '{}';  -- jobs whose lease ended
    live   bigint[];
    spent  bigint[] := '{}';  -- jobs that were delivered too often
    found  integer;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    head := locked.head;
    now := locked.now;
    LOOP
        SELECT array_agg(seq) FILTER (WHERE deliveries < p_deliveries IS NOT FALSE) AS seqs,
               array_agg(seq) FILTER (WHERE deliveries >= p_deliveries) AS spent,
               count(*) AS count, max(deadline) AS until
          INTO ended
          FROM (SELECT seq, deadline, deliveries FROM queues_lease
                 WHERE topic_id = p_topic_id AND durable = p_durable AND deadline >= queue.low_ts AND deadline <= now
                   AND seq <> ALL (back)
                 ORDER BY deadline, seq LIMIT wanted - cardinality(back)) lease;
        EXIT WHEN ended.count = 0;
        live := ARRAY(SELECT seq FROM topic_shown(p_topic_id, ended.seqs || ended.spent));
        -- A client deleted these jobs, so their leases end here.
        DELETE FROM queues_lease
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = ANY (ended.seqs || ended.spent) AND seq <> ALL (live);
        UPDATE queues_lease SET node = '', id = NULL, deadline = now + 60000
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = ANY (ended.spent) AND seq = ANY (live);
        spent := spent || ARRAY(SELECT seq FROM unnest(ended.spent) seq WHERE seq = ANY (live));
        back := back || ARRAY(SELECT seq FROM unnest(ended.seqs) seq WHERE seq = ANY (live));
        queue.low_ts := ended.until;
        EXIT WHEN cardinality(back) = wanted;
    END LOOP;
    IF cardinality(back) < wanted THEN
        queue.low_ts := now;
    END IF;

    RETURN QUERY
    WITH jobs AS MATERIALIZED (
        SELECT *, row_number() OVER (ORDER BY seq) AS place
          FROM (SELECT * FROM topic_shown(p_topic_id, back)
                UNION ALL
                SELECT * FROM topic_next(p_topic_id, queue.next_seq, head.head_seq, wanted - cardinality(back))) job),
    slots AS (
        SELECT n, row_number() OVER (ORDER BY CASE WHEN p_even THEN turn END, n, turn) AS place
          FROM unnest(p_maxes) WITH ORDINALITY AS asked (most, n) CROSS JOIN generate_series(1, most) turn),
    leased AS (
        INSERT INTO queues_lease AS lease (topic_id, seq, durable, node, id, deadline, deliveries)
        SELECT p_topic_id, jobs.seq, p_durable, p_nodes[slots.n], gen_random_uuid(), now + p_lease_ms[slots.n], 1
          FROM jobs JOIN slots USING (place)
        ON CONFLICT (topic_id, seq, durable) DO UPDATE
           SET node = excluded.node, id = excluded.id, deadline = excluded.deadline, deliveries = lease.deliveries + 1
        RETURNING seq, id, deadline, deliveries)
    SELECT slots.n::integer, jobs.seq,
           job_json(jobs.seq, leased.id, leased.deadline, jobs.ts, jobs.tag, leased.deliveries, jobs.meta, jobs.data)
      FROM jobs JOIN slots USING (place) JOIN leased ON leased.seq = jobs.seq
     ORDER BY jobs.seq;
    GET DIAGNOSTICS found = ROW_COUNT;
    queue.in_flight := queue.in_flight + found + cardinality(spent);
    IF found < wanted THEN
        queue.next_seq := head.head_seq;
    ELSIF found > cardinality(back) THEN
        queue.next_seq := (SELECT seq FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable ORDER BY seq DESC LIMIT 1);
    END IF;
    RETURN QUERY SELECT -1, seq, NULL FROM unnest(spent) seq;
    n := 0;
    seq := queue_save(queue, p_expired_ts);
    job := NULL;
    RETURN NEXT;
END
$$;
