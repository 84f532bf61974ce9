-- Claims jobs of a queue for several claimers at once: at most p_maxes[n] jobs for the node p_nodes[n], each for p_lease_ms[n].
-- p_even deals the jobs out one by one. Otherwise the first claimer gets all that it wants, then the second. p_deliveries is the
-- most deliveries of a job (NULL: any number). A claimer gets at most p_bytes of data and meta, but at least one job (queue_deal).
--
-- Returns a row for each claimed job, in order of seq: the claimer n (from 1), the seq, and the job as JSON. A row with n = 0 has
-- the number of ready jobs in `seq`, and 'more' in `job` if the limit of bytes left jobs in the queue. A row with n = -1 has the seq
-- of a job that was delivered too often: it is leased to no node for a minute, in which the caller moves it (queue_dead). If p_version
-- is not the current version, it returns no row. Version 0.3.0 sends no p_bytes: no limit.
--
-- Leases that ended come first, by deadline: a range of an index that starts at low_ts. Then come the next jobs above next_seq: a
-- range of the primary key of the records. So a claim passes no job that is in flight, and none that is done.
CREATE OR REPLACE FUNCTION queue_claim(
    p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_deliveries integer,
    p_nodes text[], p_maxes integer[], p_lease_ms bigint[], p_even boolean, p_bytes bigint DEFAULT 9223372036854775807
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
    found  integer := 0;
    last   bigint;  -- the last claimed job
    held   bigint := 0;  -- jobs that the claimers get if the limit of bytes allows it
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
                 WHERE topic_id + 0 = p_topic_id AND durable = p_durable AND deadline >= queue.low_ts AND deadline <= now
                   AND seq <> ALL (back)
                 ORDER BY deadline, seq + 0 LIMIT wanted - cardinality(back)) lease;
        EXIT WHEN ended.count = 0;
        live := ARRAY(SELECT seq FROM topic_shown(p_topic_id, ended.seqs || ended.spent));
        -- A client deleted these jobs, so their leases end here.
        PERFORM FROM queue_release(p_topic_id, p_durable, ARRAY(SELECT unnest(ended.seqs || ended.spent) EXCEPT SELECT unnest(live)));
        ended.spent := ARRAY(SELECT seq FROM unnest(ended.spent) seq WHERE seq = ANY (live));
        INSERT INTO queues_lease (topic_id, seq, durable, node, deadline, deliveries)
        SELECT p_topic_id, seq, p_durable, '', now + 60000, 0 FROM unnest(ended.spent) seq  -- each row exists
        ON CONFLICT (topic_id, seq, durable) DO UPDATE SET node = '', id = NULL, deadline = excluded.deadline;
        spent := spent || ended.spent;
        back := back || ARRAY(SELECT seq FROM unnest(ended.seqs) seq WHERE seq = ANY (live));
        queue.low_ts := ended.until;
        EXIT WHEN cardinality(back) = wanted;
    END LOOP;
    IF cardinality(back) < wanted THEN
        queue.low_ts := now;
    END IF;

    FOR n, seq, job, held IN
        WITH jobs AS MATERIALIZED (
            SELECT *, row_number() OVER (ORDER BY seq) AS place
              FROM (SELECT * FROM topic_shown(p_topic_id, back)
                    UNION ALL
                    SELECT * FROM topic_next(p_topic_id, queue.next_seq, head.head_seq, wanted - cardinality(back))) job),
        dealt AS MATERIALIZED (
            SELECT n, place
              FROM unnest(queue_deal((SELECT array_agg(size ORDER BY seq) FROM jobs), p_maxes, p_even, p_bytes))
                   WITH ORDINALITY AS dealt (n, place)),
        leased AS (
            INSERT INTO queues_lease AS lease (topic_id, seq, durable, node, id, deadline, deliveries, claimed_ts)
            SELECT p_topic_id, jobs.seq, p_durable, p_nodes[dealt.n], gen_random_uuid(), now + p_lease_ms[dealt.n], 1, now
              FROM jobs JOIN dealt USING (place)
            ON CONFLICT (topic_id, seq, durable) DO UPDATE
               SET node = excluded.node, id = excluded.id, deadline = excluded.deadline, claimed_ts = excluded.claimed_ts,
                   deliveries = least(lease.deliveries, 2147483646) + 1  -- stops at the end of integer
            RETURNING seq, id, deadline, deliveries)
        SELECT dealt.n, jobs.seq,
               job_json(jobs.seq, leased.id, leased.deadline, jobs.ts, jobs.tag, leased.deliveries, jobs.meta, jobs.data),
               (SELECT count(*) FROM jobs)
          FROM jobs JOIN dealt USING (place) JOIN leased ON leased.seq = jobs.seq
         ORDER BY jobs.seq
    LOOP
        found := found + 1;
        last := seq;
        RETURN NEXT;
    END LOOP;
    held := coalesce(held, 0);  -- the loop found no job
    queue.in_flight := queue.in_flight + found + cardinality(spent);
    IF held < wanted AND found = held THEN
        queue.next_seq := head.head_seq;
    ELSE
        queue.next_seq := greatest(queue.next_seq, last);
    END IF;
    IF found < cardinality(back) THEN  -- the next claim takes the ended leases that are left
        queue.low_ts := coalesce((
            SELECT min(deadline) FILTER (WHERE deadline <= now) FROM unnest(back) AS asked (seq)
             CROSS JOIN LATERAL (SELECT deadline FROM queues_lease
                                  WHERE topic_id = p_topic_id AND durable = p_durable AND seq = asked.seq OFFSET 0) lease), queue.low_ts);
    END IF;
    RETURN QUERY SELECT -1, seq, NULL FROM unnest(spent) seq;
    n := 0;
    seq := queue_save(queue, p_expired_ts);
    job := CASE WHEN found < held THEN 'more' END;
    RETURN NEXT;
END
$$;
