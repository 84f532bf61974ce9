--
-- PostgreSQL database dump
--



SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: groups_assign(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.groups_assign(p_group_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_ms bigint;
BEGIN
    PERFORM FROM groups_group WHERE id = p_group_id FOR NO KEY UPDATE;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;  -- after the wait for the lock
    PERFORM FROM groups_member WHERE group_id = p_group_id AND seen_ts + session_ms < now_ms ORDER BY id FOR UPDATE;
    DELETE FROM groups_member WHERE group_id = p_group_id AND seen_ts + session_ms < now_ms;
    PERFORM FROM groups_share WHERE group_id = p_group_id ORDER BY share FOR NO KEY UPDATE;

    WITH held AS (
        SELECT s.share, owner.id AS owner_id, coalesce(heir.id, owner.id) AS holder_id
          FROM groups_share s
          LEFT JOIN groups_member owner ON owner.id = s.member_id
          LEFT JOIN groups_member heir ON heir.id = s.next_id
         WHERE s.group_id = p_group_id),
    sizes AS (
        SELECT m.id, count(held.share) AS size, (SELECT count(*) FROM held) AS shares
          FROM groups_member m LEFT JOIN held ON held.holder_id = m.id
         WHERE m.group_id = p_group_id
         GROUP BY m.id),
    quotas AS (  -- if the shares do not divide evenly, the members with the most shares have one more than the others
        SELECT id, shares / count(*) OVER () +
                   (row_number() OVER (ORDER BY size DESC, id) <= shares % count(*) OVER ())::integer AS quota
          FROM sizes),
    kept AS (
        SELECT share, id
          FROM (SELECT share, holder_id, row_number() OVER (PARTITION BY holder_id ORDER BY share) AS place FROM held) ranked
          JOIN quotas ON id = holder_id
         WHERE place <= quota),
    free AS (
        SELECT share, row_number() OVER (ORDER BY share) AS place FROM held WHERE share NOT IN (SELECT share FROM kept)),
    rooms AS (
        SELECT quotas.id, row_number() OVER (ORDER BY nth, quotas.id) AS place
          FROM quotas
         CROSS JOIN LATERAL generate_series(1, quota - (SELECT count(*) FROM kept WHERE kept.id = quotas.id)) nth),
    wanted AS (
        SELECT share, coalesce(owner_id, id) AS member_id, nullif(id, coalesce(owner_id, id)) AS next_id, owner_id IS NULL AS is_new
          FROM (SELECT share, id FROM kept UNION ALL SELECT share, id FROM free LEFT JOIN rooms USING (place)) chosen
          JOIN held USING (share))
    UPDATE groups_share s
       SET member_id = wanted.member_id, next_id = wanted.next_id, generation = generation + is_new::integer,
           turn = turn + 1, drain_seq = NULL
      FROM wanted
     WHERE s.group_id = p_group_id AND s.share = wanted.share
       AND (s.member_id, s.next_id) IS DISTINCT FROM (wanted.member_id, wanted.next_id);
END
$$;


--
-- Name: groups_commit(bigint, bigint, bigint, integer[], bigint[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.groups_commit(p_group_id bigint, p_session bigint, p_head_seq bigint, p_shares integer[], p_generations bigint[], p_seqs bigint[], OUT is_alive boolean, OUT beyond_seq bigint, OUT stale text) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE groups_member SET seen_ts = extract(epoch FROM clock_timestamp()) * 1000 WHERE id = p_session AND group_id = p_group_id;
    is_alive := FOUND;
    SELECT max(seq) INTO beyond_seq FROM unnest(p_seqs) seq WHERE seq > p_head_seq;
    IF NOT is_alive OR beyond_seq IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM FROM groups_share WHERE group_id = p_group_id AND share = ANY (p_shares) ORDER BY share FOR NO KEY UPDATE;
    SELECT string_agg(given.share::text, ',' ORDER BY given.share) INTO stale
      FROM unnest(p_shares, p_generations) AS given (share, generation)
      LEFT JOIN groups_share s ON s.group_id = p_group_id AND s.share = given.share AND s.generation = given.generation
                              AND s.member_id = p_session
     WHERE s.share IS NULL;
    IF stale IS NULL AND cardinality(p_shares) > 0 THEN
        PERFORM groups_settle(array_fill(p_group_id, ARRAY[cardinality(p_shares)]), p_shares, p_generations, p_seqs,
                              array_fill(NULL::bigint, ARRAY[cardinality(p_shares)]),
                              array_fill(NULL::bigint, ARRAY[cardinality(p_shares)]));
    END IF;
END
$$;


--
-- Name: groups_join(bigint, text, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.groups_join(p_group_id bigint, p_name text, p_session_ms bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_ms   bigint;
    replaced bigint;
    session  bigint;
BEGIN
    PERFORM FROM groups_group WHERE id = p_group_id FOR NO KEY UPDATE;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;  -- after the wait for the lock
    DELETE FROM groups_member WHERE group_id = p_group_id AND name = p_name RETURNING id INTO replaced;
    INSERT INTO groups_member (group_id, name, session_ms, joined_ts, seen_ts)
    VALUES (p_group_id, p_name, p_session_ms, now_ms, now_ms)
    RETURNING id INTO session;
    IF replaced IS NOT NULL THEN
        PERFORM FROM groups_share WHERE group_id = p_group_id ORDER BY share FOR NO KEY UPDATE;
        UPDATE groups_share SET next_id = session WHERE group_id = p_group_id AND next_id = replaced;
        UPDATE groups_share
           SET member_id = coalesce(next_id, session), next_id = NULL, generation = generation + 1, turn = turn + 1, drain_seq = NULL
         WHERE group_id = p_group_id AND member_id = replaced;
    END IF;
    PERFORM groups_assign(p_group_id);
    RETURN session;
END
$$;


--
-- Name: groups_settle(bigint[], integer[], bigint[], bigint[], bigint[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.groups_settle(p_group_ids bigint[], p_shares integer[], p_generations bigint[], p_seqs bigint[], p_turns bigint[], p_drains bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
BEGIN
    PERFORM FROM groups_share s JOIN unnest(p_group_ids, p_shares) AS given (group_id, share) USING (group_id, share)
      ORDER BY s.group_id, s.share FOR NO KEY UPDATE OF s;
    UPDATE groups_share s
       SET seq = greatest(s.seq, given.seq), drain_seq = CASE WHEN given.turn = s.turn THEN given.drain_seq ELSE s.drain_seq END,
           updated_ts = now_ms
      FROM unnest(p_group_ids, p_shares, p_generations, p_seqs, p_turns, p_drains)
               AS given (group_id, share, generation, seq, turn, drain_seq)
     WHERE s.group_id = given.group_id AND s.share = given.share AND s.generation = given.generation;
    UPDATE groups_share s
       SET member_id = next_id, next_id = NULL, generation = generation + 1, turn = turn + 1, drain_seq = NULL
      FROM unnest(p_group_ids, p_shares) AS given (group_id, share)
     WHERE s.group_id = given.group_id AND s.share = given.share AND next_id IS NOT NULL AND drain_seq <= seq;
END
$$;


--
-- Name: job_json(bigint, uuid, bigint, bigint, text, integer, text, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.job_json(seq bigint, id uuid, deadline bigint, ts bigint, tag text, deliveries integer, meta text, data json) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT '{"$seq":' || seq || ',"lease_id":"' || id || '","deadline":' || deadline || ',"$ts":' || ts
        || CASE WHEN tag IS NULL THEN '' ELSE ',"$tag":' || to_json(tag) END
        || ',"deliveries":' || deliveries
        || CASE WHEN meta IS NULL THEN '' ELSE ',"meta":' || meta END
        || ',"data":' || data || '}'
$_$;


--
-- Name: pipeline_append(text, text, integer, bigint, bigint, json, json, json, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    topic   topics_topic;
    head    topics_topichead;
    known   pipeline_written;
    before  bigint;
    new_id  bigint;
    places  bigint[];
    sizes   int[];
    runs    bigint[];
    ns      bigint[];
    more    bigint;
    rejects boolean;
    done    record;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    LOOP
        SELECT id INTO new_id FROM topics_topic WHERE name = p_topic;
        IF NOT FOUND THEN
            PERFORM pipeline_create(p_topic, now_ms);
            CONTINUE;
        END IF;
        SELECT * INTO head FROM topics_topichead WHERE topic_id = new_id FOR UPDATE;
        EXIT WHEN FOUND;  -- otherwise the topic was deleted since the lookup of its name
    END LOOP;
    SELECT * INTO topic FROM topics_topic WHERE id = head.topic_id;
    SELECT * INTO known FROM pipeline_written WHERE topic_id = topic.id AND writer = p_writer AND partition = p_partition;
    IF known.batch > p_batch THEN
        RETURN -1;
    END IF;
    before := CASE WHEN known.batch = p_batch THEN known.records ELSE 0 END;
    IF before <> p_expected THEN
        RETURN NULL;
    END IF;
    IF topic.ttl_ms > 0 AND (topic.cap_records > 0 OR topic.cap_bytes > 0) THEN
        PERFORM topic_expire(topic.id, now_ms - topic.ttl_ms);
    END IF;
    rejects := topic.discard = 'reject';
    SELECT array_agg(new.place), array_agg(new.size), array_agg(new.run), array_fill(1::bigint, ARRAY[count(*)::int])
      INTO places, sizes, runs, ns
      FROM (SELECT sent.place, sent.size, sum(sent.size) OVER (ORDER BY sent.place)::bigint AS run
              FROM (SELECT place, octet_length(data::text) + coalesce(octet_length(nullif(meta::text, 'null')), 0) AS size
                      FROM ROWS FROM (json_array_elements(p_data), json_array_elements(p_metas))
                           WITH ORDINALITY AS sent (data, meta, place)) sent
             ORDER BY sent.place) new;
    more := cardinality(places);
    SELECT * INTO done
      FROM topic_append_judged(
               now_ms, topic.durability IN ('memory', 'ephemeral'), ARRAY[topic.id], ARRAY[topic.id], ARRAY[head.version],
               ARRAY[more], ARRAY[runs[more]], '[]', '[]', '[]', ARRAY[0], ARRAY[topic.sealed],
               ARRAY[CASE WHEN rejects THEN nullif(topic.cap_records, 0) END],
               ARRAY[CASE WHEN rejects THEN nullif(topic.cap_bytes, 0) END], NULL,
               p_data, p_tags, p_nodes, p_metas, places, sizes, runs, ns);
    IF done.verdict = 'sealed' THEN
        RAISE EXCEPTION '% is sealed: it takes no records and no deletes until a PUT with sealed false', quote_literal(p_topic)
              USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'topic_sealed';
    ELSIF done.verdict = 'full' AND done.records + more > topic.cap_records AND topic.cap_records > 0 THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % records', quote_literal(p_topic), done.records, topic.cap_records
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    ELSIF done.verdict = 'full' THEN
        RAISE EXCEPTION 'topic % has no room: % of at most % bytes', quote_literal(p_topic), done.bytes, topic.cap_bytes
              USING ERRCODE = 'program_limit_exceeded', HINT = 'topic_full';
    END IF;
    IF topic.discard = 'old' AND (topic.cap_records > 0 OR topic.cap_bytes > 0) THEN
        PERFORM topic_evict(topic.id, topic.cap_records, topic.cap_bytes);
    END IF;
    INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
    VALUES (topic.id, p_writer, p_partition, p_batch, before + more, now_ms)
    ON CONFLICT (topic_id, writer, partition) DO UPDATE
       SET batch = excluded.batch, ts = excluded.ts, records = excluded.records;
    RETURN before + more;
END
$$;


--
-- Name: pipeline_check(text, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pipeline_check(p_topic text, p_topic_id bigint, p_floor bigint, p_first bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    earliest bigint;
BEGIN
    SELECT s.earliest_seq INTO earliest
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0
                                           THEN (extract(epoch FROM statement_timestamp()) * 1000)::bigint - t.ttl_ms END) s
     WHERE t.id = p_topic_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'topic % was deleted while it was read', p_topic USING ERRCODE = 'data_exception';
    END IF;
    IF earliest - 1 > p_floor AND earliest > p_first THEN
        RAISE EXCEPTION 'topic % lost its records up to seq % while it was read', p_topic, earliest - 1
              USING ERRCODE = 'data_exception';
    END IF;
    RETURN true;
END
$$;


--
-- Name: pipeline_create(text, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pipeline_create(p_topic text, p_now_ms bigint) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
    new_id    bigint;
    last_head bigint;
BEGIN
    IF p_topic !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$' THEN
        RAISE EXCEPTION 'topic % is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : - are, with a letter or digit first',
              quote_literal(left(p_topic, 80)) USING ERRCODE = 'invalid_parameter_value', HINT = 'invalid_request';
    END IF;
    INSERT INTO topics_topic (
        name, created_ts, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create, idempotency_window_ms,
        dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable, sealed)
    VALUES (p_topic, p_now_ms, 'log', 0, 0, 0, 'old', 'disk', true, true, 120000, true, 30000, 0, 0, false, false)
    ON CONFLICT (name) DO NOTHING RETURNING id INTO new_id;
    IF new_id IS NOT NULL THEN
        last_head := topic_last_head(p_topic);
        INSERT INTO topics_topichead (
            topic_id, head_seq, floor_seq, reserved_seq, recreated_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq,
            holes_seq, count, bytes, total, last_ts, last_read_ts, version, volatile_seq, routed, derived, keeps_evidence)
        VALUES (new_id, last_head, last_head, last_head, last_head, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, false, false, false);
    END IF;
END
$_$;


--
-- Name: pipeline_follow(text, text, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
DECLARE
    found_id bigint;
    owner    text;
BEGIN
    IF p_cursor !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$' THEN
        RAISE EXCEPTION 'cursor % is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : - are, with a letter or digit first',
              quote_literal(left(p_cursor, 80)) USING ERRCODE = 'invalid_parameter_value', HINT = 'invalid_request';
    END IF;
    SELECT id INTO found_id FROM topics_topic WHERE name = p_topic FOR KEY SHARE;
    SELECT kind INTO owner FROM topics_cursor WHERE topic_id = found_id AND name = p_cursor AND kind <> 'named' LIMIT 1;
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'cursor % belongs to a % and is read-only', quote_literal(p_cursor), owner
              USING ERRCODE = 'invalid_parameter_value', HINT = 'incompatible';
    END IF;
    INSERT INTO topics_cursor AS c (topic_id, kind, name, seq, forwarded_total, updated_ts)
    SELECT topic_id, 'named', p_cursor, p_seq, 0, extract(epoch FROM clock_timestamp()) * 1000
      FROM topics_topichead WHERE topic_id = found_id AND p_seq BETWEEN 0 AND head_seq
    ON CONFLICT (topic_id, name, kind) DO UPDATE SET seq = excluded.seq, updated_ts = excluded.updated_ts;
END
$_$;


--
-- Name: pipeline_loss(text, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pipeline_loss(p_topic text, p_topic_id bigint, p_from bigint, p_upto bigint) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    topic topics_topic;
    head  topics_topichead;
BEGIN
    SELECT * INTO topic FROM topics_topic WHERE id = p_topic_id;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM topics_topic WHERE name = p_topic) THEN 'recreated' ELSE 'deleted' END;
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    IF topic.ttl_ms > 0 THEN
        head := topic_as_expired(head, (extract(epoch FROM statement_timestamp()) * 1000)::bigint - topic.ttl_ms);
    END IF;
    IF head.recreated_seq > p_from THEN
        RETURN 'recreated';
    END IF;
    RETURN (SELECT CASE WHEN count(*) > 1 THEN 'mixed' ELSE min(why) END
              FROM (SELECT why
                      FROM (VALUES ('cap', head.cap_lost_seq), ('ttl', head.ttl_lost_seq),
                                   ('restart', head.restart_lost_seq), ('source_trim', head.source_lost_seq)) lost (why, seq)
                     WHERE seq > p_from
                     UNION
                    SELECT CASE WHEN path = '{}' THEN 'restart' ELSE 'source_trim' END
                      FROM topics_span
                     WHERE topic_id = p_topic_id AND home_id IS NULL AND last_seq > p_from AND first_seq <= p_upto) loss);
END
$$;


--
-- Name: push_batch(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.push_batch(p_id bigint, p_lease_ms bigint, p_bytes bigint, OUT verdict text, OUT wait_ms bigint, OUT full_seq bigint, OUT lease bigint, OUT batch_id text, OUT attempt integer, OUT age_ms bigint, OUT callback text, OUT uuid text, OUT dropped bigint, OUT unreadable integer, OUT records text) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    now_ms  bigint := extract(epoch FROM clock_timestamp()) * 1000;
    sub     push_subscriber;
    queue   bigint;
    head    topics_topichead;
    after   bigint;
    oldest  bigint;
    upto    bigint;
    fresh   boolean;
    edge    bigint;  -- a batch ends here at the latest
    reached bigint;
    bad     bigint;  -- the first record that cannot be read
    reason  text;
BEGIN
    verdict := 'idle';
    unreadable := 0;
    SELECT * INTO sub FROM push_subscriber WHERE client_id = p_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR sub.paused THEN
        RETURN;
    END IF;
    IF greatest(sub.leased_until_ts, sub.retry_ts) > now_ms THEN
        verdict := 'wait';
        wait_ms := greatest(sub.leased_until_ts, sub.retry_ts) - now_ms;
        RETURN;
    END IF;
    SELECT id INTO queue FROM topics_topic WHERE name = sub.queue;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = queue;
    SELECT greatest(c.seq, head.floor_seq) INTO after FROM topics_cursor c
     WHERE c.topic_id = queue AND c.name = substr(sub.queue, length('bus.queue:') + 1) AND c.kind = 'subscription';
    IF after IS NULL THEN  -- an operator deleted the queue
        RETURN;
    END IF;

    edge := head.head_seq;
    LOOP
        fresh := sub.batch_last_seq IS NULL OR sub.batch_first_seq <> after + 1;  -- after a seek or a partial drop this is another batch
        IF fresh THEN
            oldest := topic_next_ts(queue, after);
            IF oldest IS NULL THEN
                RETURN;
            END IF;
            IF head.head_seq - after < sub.max_events AND oldest > now_ms - sub.timeout_ms AND oldest <= now_ms + 10000 THEN
                verdict := 'wait';
                wait_ms := oldest + sub.timeout_ms - now_ms;
                full_seq := after + sub.max_events;
                RETURN;
            END IF;
            upto := least(after + sub.max_events, edge);
        ELSE
            oldest := sub.batch_ts;
            upto := sub.batch_last_seq;
        END IF;
        -- As many records as fit into p_bytes, at least one. A batch that is repeated has fitted before.
        bad := NULL;
        BEGIN
            SELECT max(seq), string_agg(topic || chr(31) || data::text, chr(30) ORDER BY seq)
              INTO reached, records
              FROM (SELECT seq, topic, data, size, sum(size) OVER (ORDER BY seq) AS run FROM push_queued(queue, after + 1, upto)) queued
             WHERE run <= p_bytes OR run = size OR NOT fresh;
        EXCEPTION WHEN OTHERS THEN
            SELECT u.seq, u.reason INTO bad, reason FROM push_unreadable(queue, after + 1, upto) u;
            IF bad IS NULL THEN
                RAISE;
            END IF;
        END;
        EXIT WHEN records IS NOT NULL;
        IF bad > after + 1 THEN
            edge := bad - 1;
            sub.batch_last_seq := NULL;
            CONTINUE;
        END IF;
        -- These seqs were deleted or put aside, so the batch has no record.
        IF bad IS NOT NULL THEN
            INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, error, duration_ms, events, bytes)
            VALUES (p_id, now_ms, '', 0, NULL, left(format('seq %s of the queue was put aside: %s', bad, reason), 300), 0, 1, 0);
            UPDATE push_subscriber SET dropped = dropped + 1, unreadable_total = unreadable_total + 1 WHERE client_id = p_id;
            unreadable := unreadable + 1;
            sub.dropped := sub.dropped + 1;
            edge := head.head_seq;
            after := bad;
        ELSE
            after := upto;
        END IF;
        UPDATE topics_cursor SET seq = after, updated_ts = now_ms
         WHERE topic_id = queue AND name = substr(sub.queue, length('bus.queue:') + 1) AND kind = 'subscription';
        sub.batch_last_seq := NULL;
        IF after >= head.head_seq THEN
            UPDATE push_subscriber SET batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL, batch_attempts = 0 WHERE client_id = p_id;
            RETURN;
        END IF;
    END LOOP;

    verdict := 'send';
    PERFORM set_config('synchronous_commit', 'off', true);  -- push_settle.sql has the reason
    batch_id := CASE WHEN fresh THEN gen_random_uuid()::text ELSE sub.batch_id END;
    attempt := CASE WHEN fresh THEN 1 ELSE sub.batch_attempts + 1 END;
    lease := sub.lease + 1;
    age_ms := greatest(now_ms - oldest, 0);
    callback := sub.callback;
    uuid := sub.uuid;
    dropped := sub.dropped;
    UPDATE push_subscriber s
       SET lease = push_batch.lease, leased_until_ts = now_ms + p_lease_ms, batch_id = push_batch.batch_id,
           batch_first_seq = CASE WHEN fresh THEN after + 1 ELSE batch_first_seq END, batch_last_seq = reached,
           batch_attempts = push_batch.attempt, batch_ts = oldest
     WHERE client_id = p_id;
END
$$;


--
-- Name: push_fill(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.push_fill(p_queue_id bigint, p_limit bigint, p_now bigint, OUT ordered boolean, OUT queue_head bigint, OUT moved boolean, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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
    PERFORM FROM topics_topichead WHERE topic_id = p_queue_id FOR UPDATE;
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
       SET head_seq = queue_head, holes_seq = queue_head, count = count + records, bytes = bytes + payload,
           last_ts = greatest(last_ts, p_now), reserved_seq = topic_reserve(queue_head, reserved_seq)
     WHERE topic_id = p_queue_id;
    SELECT * INTO queue FROM topics_topic WHERE id = p_queue_id;
    IF queue.cap_records > 0 OR queue.cap_bytes > 0 THEN
        PERFORM topic_evict(p_queue_id, queue.cap_records, queue.cap_bytes);
    END IF;
    moved := true;
END
$$;


--
-- Name: push_queued(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.push_queued(p_queue_id bigint, p_first bigint, p_last bigint) RETURNS TABLE(seq bigint, topic text, data json, size integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT seq, '', data, size FROM topics_record WHERE topic_id = p_queue_id AND seq >= p_first AND seq <= p_last AND NOT deleted
    UNION ALL
    SELECT seq, coalesce(substring(path[cardinality(path)] FROM '^bus:([a-z_]{1,32})>bus[.]queue:'), ''), data, size
      FROM topic_forwarded(p_queue_id, p_first, p_last)
$$;


--
-- Name: push_settle(bigint, bigint, text, boolean, integer, text, double precision, integer, integer, integer, bigint, integer, integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.push_settle(p_id bigint, p_lease bigint, p_batch_id text, p_acknowledged boolean, p_status integer, p_error text, p_duration_ms double precision, p_events integer, p_passed integer, p_bytes integer, p_dropped bigint, p_heal integer, p_damage integer, p_max_backoff_ms bigint, OUT held boolean, OUT retry_ms bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    sub    push_subscriber;
    points integer;
BEGIN
    SELECT * INTO sub FROM push_subscriber 
     WHERE client_id = p_id AND lease = p_lease AND batch_id = p_batch_id AND leased_until_ts > 0 FOR NO KEY UPDATE;
    held := FOUND;
    PERFORM set_config('synchronous_commit', 'off', true);
    retry_ms := 0;
    IF NOT held THEN
        RETURN;
    END IF;
    IF p_events > 0 THEN
        INSERT INTO push_delivery (subscriber_id, ts, batch_id, attempt, status, error, duration_ms, events, bytes)
        VALUES (p_id, now_ms, sub.batch_id, sub.batch_attempts, p_status, CASE WHEN NOT p_acknowledged THEN p_error END, p_duration_ms,
                p_events, p_bytes);
    END IF;
    IF p_acknowledged THEN
        UPDATE topics_cursor c SET seq = greatest(c.seq, sub.batch_last_seq), forwarded_total = c.forwarded_total + p_events, updated_ts = now_ms
          FROM topics_topic t
         WHERE t.name = sub.queue AND c.topic_id = t.id AND c.name = substr(sub.queue, length('bus.queue:') + 1) AND c.kind = 'subscription';
        UPDATE push_subscriber
           SET leased_until_ts = 0, batch_id = NULL, batch_first_seq = NULL, batch_last_seq = NULL, batch_attempts = 0, retry_ts = 0,
               health = CASE WHEN p_events = 0 THEN health
                             ELSE least(greatest(health + CASE WHEN p_error IS NULL THEN p_heal ELSE p_damage END, 0), 100) END,
               last_error = CASE WHEN p_events = 0 THEN last_error ELSE p_error END,
               last_delivery_ts = CASE WHEN p_events = 0 THEN last_delivery_ts ELSE now_ms END,
               sent_total = sent_total + p_events, passed_total = passed_total + p_passed, dropped = dropped - p_dropped
         WHERE client_id = p_id;
    ELSE
        -- Like Routemaster: with fewer points left the pause is longer. Up to 50 % is added at random, so that subscribers that failed
        -- together do not return together.
        points := greatest(sub.health + p_damage, 0);
        retry_ms := p_max_backoff_ms * power(2, -points) * (1 + random() / 2);
        UPDATE push_subscriber
           SET leased_until_ts = 0, health = points, retry_ts = now_ms + push_settle.retry_ms, last_error = p_error
         WHERE client_id = p_id;
    END IF;
END
$$;


--
-- Name: push_unreadable(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.push_unreadable(p_queue_id bigint, p_first bigint, p_last bigint, OUT seq bigint, OUT reason text) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    FOR each IN p_first..p_last LOOP
        BEGIN
            PERFORM length(topic || data::text) FROM push_queued(p_queue_id, each, each);
        EXCEPTION WHEN OTHERS THEN
            IF left(SQLSTATE, 2) IN ('40', '53', '55', '57') THEN
                RAISE;
            END IF;
            seq := each;
            reason := SQLERRM;
            RETURN;
        END;
    END LOOP;
END
$$;


--
-- Name: queue_ack(bigint, bigint, boolean, bigint, bigint, integer[], text[], bigint[], uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_ack(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[]) RETURNS TABLE(n integer, seq bigint, deadline bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    seqs   bigint[];
    ended  bigint;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        seqs := seqs || seq;
        IF deadline > locked.now THEN
            queue.in_flight := queue.in_flight - 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF seqs IS NOT NULL THEN
        DELETE FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable AND seq = ANY (seqs);
        PERFORM topic_delete_seqs(p_topic_id, p_version, seqs, p_expired_ts);
    END IF;
    n := 0;
    deadline := queue.in_flight;
    seq := queue_save(queue, p_expired_ts);
    RETURN NEXT;
END
$$;


--
-- Name: queue_claim(bigint, bigint, boolean, bigint, bigint, integer, text[], integer[], bigint[], boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_claim(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_deliveries integer, p_nodes text[], p_maxes integer[], p_lease_ms bigint[], p_even boolean) RETURNS TABLE(n integer, seq bigint, job text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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


--
-- Name: queue_counts(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_counts(p_topic_id bigint, p_version bigint, p_now bigint, p_expired_ts bigint) RETURNS TABLE(ready bigint, in_flight bigint, dead_lettered bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    queue queues_queue;
    floor bigint;
    live  bigint;
    now   bigint;
    ended record;
    lost  record;
BEGIN
    SELECT stat.earliest_seq - 1, stat.records INTO floor, live
      FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, p_expired_ts) stat
     WHERE head.topic_id = p_topic_id AND head.version = p_version;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    dead_lettered := coalesce((SELECT jobs FROM queues_moved WHERE topic_id = p_topic_id), 0);
    SELECT * INTO queue FROM queues_queue WHERE topic_id = p_topic_id LIMIT 1;
    IF NOT FOUND THEN
        ready := live;
        in_flight := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    now := greatest(coalesce(p_now, queue_now()), queue.swept_ts);
    SELECT count(node) AS held, count(*) - count(node) AS back INTO ended FROM queues_lease
     WHERE topic_id = p_topic_id AND deadline > queue.swept_ts AND deadline <= now;
    SELECT count(node) AS held, count(*) - count(node) AS back INTO lost FROM queues_lease
     WHERE topic_id = p_topic_id AND seq > queue.floor_seq AND seq <= floor AND deadline > now;
    in_flight := queue.in_flight - ended.held - lost.held;
    ready := live - in_flight - (queue.delayed - ended.back - lost.back);
    RETURN NEXT;
END
$$;


--
-- Name: queue_drop(bigint, bigint, boolean, bigint, bigint, bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_drop(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_seqs bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    ended  bigint;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        PERFORM topic_outdated();
    END IF;
    queue := locked.queue;
    WITH gone AS (
        DELETE FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable AND seq = ANY (p_seqs) RETURNING deadline)
    SELECT count(*) INTO ended FROM gone WHERE deadline > locked.now;
    queue.in_flight := queue.in_flight - ended;
    PERFORM topic_delete_seqs(p_topic_id, p_version, p_seqs, p_expired_ts);
    INSERT INTO queues_moved AS moved (topic_id, jobs) VALUES (p_topic_id, cardinality(p_seqs))
    ON CONFLICT (topic_id) DO UPDATE SET jobs = moved.jobs + excluded.jobs;
    RETURN queue_save(queue, p_expired_ts);
END
$$;


--
-- Name: queue_extend(bigint, bigint, boolean, bigint, bigint, integer[], text[], bigint[], uuid[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_extend(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[], p_lease_ms bigint[]) RETURNS TABLE(n integer, seq bigint, deadline bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        CONTINUE WHEN deadline <= locked.now;
        UPDATE queues_lease SET deadline = locked.now + p_lease_ms[n]
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = queue_extend.seq
        RETURNING queues_lease.deadline INTO deadline;
        RETURN NEXT;
    END LOOP;
    n := 0;
    seq := queue_save(locked.queue, p_expired_ts);
    deadline := 0;
    RETURN NEXT;
END
$$;


--
-- Name: queue_forget(bigint, bigint, boolean, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_forget(p_topic_id bigint, p_version bigint, p_durable boolean, p_expired_ts bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
    live   bigint[];
    gone   record;
BEGIN
    SELECT * INTO queue FROM queues_queue WHERE topic_id = p_topic_id;
    IF NOT FOUND THEN  -- nobody claimed a job yet
        RETURN;
    END IF;
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, queue.swept_ts, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    live := ARRAY(SELECT seq FROM topic_shown(
        p_topic_id, ARRAY(SELECT seq FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable)));
    WITH ended AS (
        DELETE FROM queues_lease WHERE topic_id = p_topic_id AND durable = p_durable AND seq <> ALL (live) RETURNING node, deadline)
    SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM ended WHERE deadline > locked.now;
    queue.in_flight := queue.in_flight - gone.held;
    queue.delayed := queue.delayed - gone.back;
    PERFORM queue_save(queue, p_expired_ts);
END
$$;


--
-- Name: queue_held(bigint, boolean, integer[], text[], bigint[], uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_held(p_topic_id bigint, p_durable boolean, p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[]) RETURNS TABLE(n integer, seq bigint, deadline bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT DISTINCT ON (lease.seq) asked.n, lease.seq, lease.deadline
      FROM unnest(p_ns, p_nodes, p_seqs, p_ids) AS asked (n, node, seq, id)
     CROSS JOIN LATERAL (SELECT * FROM queues_lease
                          WHERE topic_id = p_topic_id AND durable = p_durable AND seq = asked.seq OFFSET 0) lease
     WHERE lease.node = asked.node AND (asked.id IS NULL OR lease.id = asked.id)
     ORDER BY lease.seq, asked.n;
END
$$;


SET default_tablespace = '';

--
-- Name: queues_queue; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queues_queue (
    topic_id bigint NOT NULL,
    durable boolean NOT NULL,
    next_seq bigint NOT NULL,
    floor_seq bigint NOT NULL,
    in_flight bigint NOT NULL,
    delayed bigint NOT NULL,
    low_ts bigint NOT NULL,
    swept_ts bigint NOT NULL
)
PARTITION BY LIST (durable);


SET default_table_access_method = heap;

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
    holes_seq bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    total bigint NOT NULL,
    last_ts bigint NOT NULL,
    last_read_ts bigint NOT NULL,
    version bigint NOT NULL,
    reserved_seq bigint DEFAULT 0 NOT NULL,
    volatile_seq bigint DEFAULT 0 NOT NULL,
    routed boolean DEFAULT false NOT NULL,
    derived boolean DEFAULT false NOT NULL,
    keeps_evidence boolean DEFAULT false NOT NULL,
    recreated_seq bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: queue_lock(bigint, bigint, boolean, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_lock(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, OUT queue public.queues_queue, OUT head public.topics_topichead, OUT now bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    found_queue queues_queue;
    found_head  topics_topichead;
    floor  bigint;
    gone   record;
    moment bigint := coalesce(p_now, queue_now());
BEGIN
    SELECT * INTO found_queue FROM queues_queue WHERE topic_id = p_topic_id FOR UPDATE;
    IF NOT FOUND THEN
        -- Of two calls that find no row, one waits here and then finds the row of the other. Holders of a queue's row never wait
        -- for this lock.
        PERFORM pg_advisory_xact_lock(7400, (p_topic_id % 2147483648)::integer);
        SELECT * INTO found_queue FROM queues_queue WHERE topic_id = p_topic_id FOR UPDATE;
    END IF;
    SELECT * INTO found_head FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version;
    IF found_head.topic_id IS NULL THEN
        RETURN;
    END IF;
    floor := found_head.floor_seq;
    IF p_expired_ts IS NOT NULL THEN
        floor := greatest(floor, topic_seq_at(p_topic_id, floor, found_head.head_seq, p_expired_ts) - 1);
    END IF;
    IF found_queue.topic_id IS NULL THEN
        INSERT INTO queues_queue VALUES (p_topic_id, p_durable, floor, floor, 0, 0, moment, moment) RETURNING * INTO found_queue;
    ELSIF found_queue.durable <> p_durable THEN  -- the config changed: the rows move to the other partitions
        UPDATE queues_lease SET durable = p_durable WHERE topic_id = p_topic_id;
        UPDATE queues_queue SET durable = p_durable WHERE topic_id = p_topic_id RETURNING * INTO found_queue;
    END IF;
    IF moment < found_queue.swept_ts - 10000 THEN  -- the clock was set back: count again
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM queues_lease
         WHERE topic_id = p_topic_id AND durable = p_durable AND deadline > moment;
        found_queue.in_flight := gone.held;
        found_queue.delayed := gone.back;
        found_queue.low_ts := 0;
        found_queue.swept_ts := moment;
    ELSIF moment > found_queue.swept_ts THEN
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM queues_lease
         WHERE topic_id = p_topic_id AND durable = p_durable AND deadline > found_queue.swept_ts AND deadline <= moment;
        found_queue.in_flight := found_queue.in_flight - gone.held;
        found_queue.delayed := found_queue.delayed - gone.back;
        found_queue.swept_ts := moment;
    END IF;
    IF floor > found_queue.floor_seq THEN
        WITH lost AS (
            DELETE FROM queues_lease
             WHERE topic_id = p_topic_id AND durable = p_durable AND seq > found_queue.floor_seq AND seq <= floor
            RETURNING node, deadline)
        SELECT count(node) AS held, count(*) - count(node) AS back INTO gone FROM lost WHERE deadline > found_queue.swept_ts;
        found_queue.in_flight := found_queue.in_flight - gone.held;
        found_queue.delayed := found_queue.delayed - gone.back;
        found_queue.floor_seq := floor;
        found_queue.next_seq := greatest(found_queue.next_seq, floor);
    END IF;
    queue := found_queue;
    head := found_head;
    now := found_queue.swept_ts;
END
$$;


--
-- Name: queue_nack(bigint, bigint, boolean, bigint, bigint, integer[], text[], bigint[], uuid[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_nack(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_ns integer[], p_nodes text[], p_seqs bigint[], p_ids uuid[], p_delays bigint[]) RETURNS TABLE(n integer, seq bigint, deadline bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
    queue  queues_queue;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        RETURN;
    END IF;
    queue := locked.queue;
    FOR n, seq, deadline IN SELECT * FROM queue_held(p_topic_id, p_durable, p_ns, p_nodes, p_seqs, p_ids) LOOP
        UPDATE queues_lease SET node = NULL, id = NULL, deadline = locked.now + p_delays[n]
         WHERE topic_id = p_topic_id AND durable = p_durable AND seq = queue_nack.seq;
        IF deadline > locked.now THEN
            queue.in_flight := queue.in_flight - 1;
        END IF;
        IF p_delays[n] > 0 THEN
            queue.delayed := queue.delayed + 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    n := 0;
    deadline := queue.in_flight;
    seq := queue_save(queue, p_expired_ts);
    RETURN NEXT;
END
$$;


--
-- Name: queue_now(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_now() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;


--
-- Name: queue_save(public.queues_queue, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_save(queue public.queues_queue, p_expired_ts bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
    UPDATE queues_queue
       SET next_seq = queue.next_seq, floor_seq = queue.floor_seq, in_flight = queue.in_flight, delayed = queue.delayed,
           low_ts = queue.low_ts, swept_ts = queue.swept_ts
     WHERE topic_id = queue.topic_id AND durable = queue.durable;
    RETURN (SELECT stat.records - queue.in_flight - queue.delayed
              FROM topics_topichead head CROSS JOIN LATERAL topic_stat(head, p_expired_ts) stat
             WHERE head.topic_id = queue.topic_id);
END
$$;


--
-- Name: queue_spent(bigint, bigint, boolean, bigint, bigint, bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_spent(p_topic_id bigint, p_version bigint, p_durable boolean, p_now bigint, p_expired_ts bigint, p_seqs bigint[]) RETURNS TABLE(seq bigint, deliveries integer, node text, tag text, meta text, data text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    locked record;
BEGIN
    SELECT * INTO locked FROM queue_lock(p_topic_id, p_version, p_durable, p_now, p_expired_ts);
    IF locked.head IS NULL THEN
        PERFORM topic_outdated();
    END IF;
    PERFORM queue_save(locked.queue, p_expired_ts);
    PERFORM pg_advisory_xact_lock(7003, (p_topic_id % 2147483648)::integer);
    RETURN QUERY
    SELECT lease.seq, lease.deliveries, shown.node, shown.tag, shown.meta, shown.data::text
      FROM topic_shown(p_topic_id, p_seqs) shown
     CROSS JOIN LATERAL (SELECT * FROM queues_lease
                          WHERE topic_id = p_topic_id AND durable = p_durable AND seq = shown.seq OFFSET 0) lease
     WHERE lease.node = '' AND lease.id IS NULL
     ORDER BY lease.seq;
END
$$;


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
    kept    boolean;
    own     bigint[];
    pieces  bigint[];
    covered int8multirange;
BEGIN
    SELECT h.floor_seq, h.keeps_evidence INTO below, kept FROM topics_topichead h WHERE h.topic_id = p_topic_id;
    IF NOT FOUND THEN  -- a deleted topic shows no records, and no router leads into it
        below := 1::bigint << 62;
        kept := false;
    END IF;
    -- The step is bounded in bytes, because records can be large, and in seqs, which bounds the spans that can show them.
    SELECT count(*), max(seq), coalesce(array_agg(seq) FILTER (WHERE home), '{}'), coalesce(array_agg(seq) FILTER (WHERE NOT home), '{}')
      INTO examined, last_seq, own, pieces
      FROM (SELECT seq, home, min(seq) OVER () AS first, sum(size) OVER (ORDER BY seq) - size AS before
              FROM ((SELECT seq, size, true AS home FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= p_first AND seq <= below ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT seq, size, true FROM topics_record
                      WHERE topic_id = p_topic_id AND seq >= greatest(p_first, below + 1) AND deleted ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT s.last_seq, 0, false FROM topics_span s
                      WHERE topic_id = p_topic_id AND s.last_seq >= p_first AND s.last_seq <= below ORDER BY s.last_seq LIMIT p_limit)) entry
             ORDER BY seq LIMIT p_limit) entry
     WHERE before < 33554432 AND seq < first + 50000;
    covered := reclaim_covered(p_topic_id, own[1], own[cardinality(own)]);
    own := ARRAY(SELECT seq FROM unnest(own) seq WHERE NOT covered @> seq);
    pieces := ARRAY(SELECT s.last_seq FROM topics_span s
                     WHERE topic_id = p_topic_id AND s.last_seq = ANY (pieces)
                       AND NOT (kept AND reclaim_stored(home_id, home_first_seq, home_last_seq))
                       AND NOT (home_id IS NULL AND EXISTS (
                           SELECT FROM topics_cursor c WHERE c.topic_id = p_topic_id AND c.kind = 'router' AND c.seq < s.last_seq)));
    IF p_remove THEN
        DELETE FROM topics_record WHERE topic_id = p_topic_id AND seq = ANY (own);
        DELETE FROM topics_span s WHERE topic_id = p_topic_id AND s.last_seq = ANY (pieces);
    END IF;
    free := cardinality(own) + cardinality(pieces);
    floor_seq := below;
END
$$;


--
-- Name: reclaim_covered(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reclaim_covered(p_home_id bigint, p_first bigint, p_last bigint) RETURNS int8multirange
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (
        SELECT coalesce(range_agg(int8range(home_first_seq + greatest(floor_seq + 1 - first_seq, 0), home_last_seq, '[]')), '{}')
          FROM (SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_first AND home_last_seq < p_last + 1000
                UNION ALL
                SELECT * FROM topics_span
                 WHERE home_id = p_home_id AND home_last_seq >= p_last + 1000 AND home_last_seq < p_last + 100000
                   AND home_last_seq - home_first_seq >= 1000) span
         CROSS JOIN LATERAL (SELECT floor_seq FROM topics_topichead WHERE topic_id = span.topic_id OFFSET 0) head  -- a deleted topic shows no records
         WHERE shown AND home_first_seq <= p_last AND last_seq > floor_seq);
END
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
    source_id bigint NOT NULL,
    ordered boolean DEFAULT false NOT NULL
);


--
-- Name: router_due(public.routers_router, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_due(router public.routers_router, p_now bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT NOT router.ordered AND (
        router.state = 'running' OR router.state = 'blocked' AND (router.retry_ts <= p_now OR EXISTS (
        SELECT FROM topics_topic dest JOIN topics_topichead head ON head.topic_id = dest.id
         WHERE dest.id = router.dest_id AND router.retry_bytes IS NOT NULL AND NOT dest.sealed
           AND (dest.discard = 'old' OR (dest.cap_records = 0 OR head.count < dest.cap_records)
                                    AND (dest.cap_bytes = 0 OR head.bytes + router.retry_bytes <= dest.cap_bytes)))))
$$;


--
-- Name: topics_span; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_span (
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
-- Name: router_fitting(public.topics_span[], bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_fitting(entries public.topics_span[], room_records bigint, room_bytes bigint, OUT upto bigint, OUT rejected bigint) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    SELECT first_seq - 1, size
      FROM (SELECT first_seq, size, count(*) OVER sofar AS records, sum(size) OVER sofar AS bytes
              FROM (SELECT first_seq, (SELECT size FROM topics_record r WHERE r.topic_id = home_id AND r.seq = home_first_seq) AS size
                      FROM unnest(entries) WHERE home_id IS NOT NULL) sized  -- a loss needs no room
            WINDOW sofar AS (ORDER BY first_seq ROWS UNBOUNDED PRECEDING)) measured
     WHERE records > room_records OR bytes > room_bytes
     ORDER BY first_seq LIMIT 1
$$;


--
-- Name: router_forward(bigint, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_forward(p_router_id bigint, p_limit bigint, p_now bigint, p_max_hops integer, OUT forwarded bigint, OUT cursor_seq bigint, OUT blocked text, OUT rejected bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
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
       SET head_seq = new_head, holes_seq = new_head, count = count + forwarded, bytes = bytes + new_bytes,
           last_ts = greatest(last_ts, p_now), reserved_seq = topic_reserve(new_head, reserved_seq)
     WHERE topic_id = dest.id AND head_seq < new_head;
    IF target.count = 0 AND new_head > target.floor_seq THEN  -- no record was live: a loss at the front is below the floor
        PERFORM topic_shrink(dest.id, target.floor_seq, 0, 0);
    END IF;
    IF dest.discard = 'old' AND (dest.cap_records > 0 OR dest.cap_bytes > 0) THEN
        IF dest.ttl_ms > 0 THEN  -- an expired record was not evicted
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
-- Name: router_joined(public.topics_span[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_joined(entries public.topics_span[]) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE
    AS $$
    SELECT topic_id, last, before + 1, home_id, home_first_seq, home_first_seq + last - before - 1, 0::bigint, shown, keep_node, keep_tag,
           path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq
      FROM (SELECT *, coalesce(lead(before) OVER (ORDER BY place),
                               (SELECT sum(last_seq - first_seq + 1) FROM unnest(entries)))::bigint AS last
              FROM (SELECT *, ordinality AS place, (sum(last_seq - first_seq + 1) OVER sofar)::bigint - (last_seq - first_seq + 1) AS before,
                           home_id IS NULL
                           OR ROW (home_id, home_first_seq, stamp_first_seq, keep_node, keep_tag, path, stamp_router, stamp_source_id)
                              IS DISTINCT FROM
                              lag(ROW (home_id, home_last_seq + 1, stamp_first_seq + last_seq - first_seq + 1, keep_node, keep_tag, path,
                                       stamp_router, stamp_source_id)) OVER sofar AS begins
                      FROM unnest(entries) WITH ORDINALITY
                    WINDOW sofar AS (ORDER BY ordinality ROWS UNBOUNDED PRECEDING)) entry
             WHERE begins) piece
$$;


--
-- Name: router_lose(bigint, bigint, bigint, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_lose(p_dest_id bigint, p_lost bigint, p_now bigint, p_path text[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
    SELECT topic_id, head_seq + 1, head_seq + p_lost, NULL, 0, 0, greatest(last_ts, p_now), false, true, true, p_path
      FROM topics_topichead WHERE topic_id = p_dest_id;

    UPDATE topics_topichead
       SET head_seq = head_seq + p_lost, holes_seq = head_seq + p_lost, last_ts = greatest(last_ts, p_now),
           reserved_seq = topic_reserve(head_seq + p_lost, reserved_seq)
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

CREATE FUNCTION public.router_runs(p_source_id bigint, p_holes_seq bigint, p_told bigint, p_after bigint, p_upto bigint, p_op text, p_tag text, p_max_hops integer) RETURNS TABLE(first_seq bigint, last_seq bigint, home_id bigint, home_first_seq bigint, keep_node boolean, keep_tag boolean, path text[], stamp_router text, stamp_source text, stamp_source_id bigint, stamp_first_seq bigint)
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
BEGIN
    IF p_told < p_holes_seq THEN
        RETURN QUERY
        SELECT greatest(first_seq, p_told + 1), least(last_seq, p_upto), NULL::bigint, 0::bigint, true, true, path,
               NULL, NULL, NULL::bigint, NULL::bigint
          FROM topics_span
         WHERE topic_id = p_source_id AND home_id IS NULL AND last_seq > p_told AND first_seq <= p_upto
           AND (cardinality(path) < p_max_hops) IS NOT FALSE;
    END IF;
    IF p_op IS NULL AND p_after >= p_holes_seq THEN  -- all seqs are own live records, so they are one run without a look
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
              FROM topic_spans(p_source_id, p_after + 1, p_upto)
             WHERE shown AND (cardinality(path) < p_max_hops) IS NOT FALSE) span
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
-- Name: router_unheld(public.topics_span[], bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_unheld(entries public.topics_span[], p_dest_id bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE
    AS $$
    WITH entry AS (SELECT * FROM unnest(entries)),
    -- The query uses the index of homes in a topic, in its order. A span has at most 100,000 seqs.
    held AS (
        SELECT span.home_id, range_agg(int8range(span.home_first_seq, span.home_last_seq, '[]')) AS seqs
          FROM (SELECT home_id, min(home_first_seq) AS first, max(home_last_seq) AS last
                  FROM entry WHERE home_id IS NOT NULL GROUP BY home_id) home
         CROSS JOIN LATERAL (
               SELECT * FROM topics_span
                WHERE home_id = home.home_id AND topic_id = p_dest_id AND home_last_seq >= home.first
                  AND home_last_seq < home.last + 100000 AND home_first_seq <= home.last ORDER BY home_last_seq OFFSET 0) span
         GROUP BY span.home_id)
    SELECT entry.topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path,
           stamp_router, stamp_source, stamp_source_id, stamp_first_seq
      FROM (SELECT *, row_number() OVER (PARTITION BY home_id, home_first_seq ORDER BY first_seq) AS nth FROM entry) entry
      LEFT JOIN held USING (home_id)
     WHERE CASE WHEN home_id IS NULL
                THEN NOT EXISTS (SELECT FROM routers_router passed WHERE passed.name = ANY (entry.path) AND passed.source_id = p_dest_id)
                ELSE nth = 1 AND (held.seqs @> entry.home_first_seq) IS NOT TRUE END
     ORDER BY first_seq
$$;


--
-- Name: router_unsent(public.topics_span[], public.routers_router, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.router_unsent(entries public.topics_span[], router public.routers_router, p_floor_seq bigint, p_after bigint, p_upto bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE
    AS $$
    WITH sent AS (
        SELECT range_agg(int8range(stamp_first_seq + greatest(p_floor_seq + 1 - first_seq, 0),
                                   stamp_first_seq + last_seq - first_seq, '[]')) AS seqs
          FROM topics_span
         WHERE topic_id = router.dest_id AND stamp_router = router.name AND stamp_source_id = router.source_id
           AND stamp_first_seq + last_seq - first_seq > p_after AND stamp_first_seq + last_seq - first_seq < p_upto + 100000
           AND stamp_first_seq <= p_upto AND shown AND last_seq > p_floor_seq)
    SELECT entry.* FROM unnest(entries) entry CROSS JOIN sent
     WHERE (home_id IS NOT NULL AND sent.seqs @> entry.first_seq) IS NOT TRUE
     ORDER BY first_seq
$$;


--
-- Name: routers_advance(bigint, bigint, boolean, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.routers_advance(p_source_id bigint, p_dest_id bigint, p_wait boolean, p_limit bigint, p_now bigint, p_max_hops integer) RETURNS TABLE(dest_id bigint, dest_head bigint, moved boolean, routed boolean, more boolean)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$  -- this and OFFSET 0 make the plan use indexes, even if these are most of all routers
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
    PERFORM FROM topics_topichead
      WHERE topic_id IN (SELECT r.dest_id FROM routers_router r WHERE r.id = ANY (taken)) ORDER BY topic_id FOR UPDATE;
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
        SELECT router.*, sized.bytes, greatest(dest.last_ts, p_now) AS ts, dest.head_seq AS base
          FROM router JOIN sized USING (after) JOIN topics_topichead dest ON dest.topic_id = router.dest_id),
    spans AS (  -- at most 100,000 seqs, so a search for the spans over a record is bounded
        INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path)
        SELECT dest_id, base + n + 1, base + least(n + 100000, records), p_source_id, after + n + 1, after + least(n + 100000, records),
               ts, true, preserve_node, preserve_tag, ARRAY[name]
          FROM placed CROSS JOIN LATERAL generate_series(0, records - 1, 100000) n),
    heads AS (
        UPDATE topics_topichead dest
           SET head_seq = dest.head_seq + placed.records, holes_seq = dest.head_seq + placed.records,
               count = dest.count + placed.records, bytes = dest.bytes + placed.bytes, last_ts = placed.ts,
               reserved_seq = topic_reserve(dest.head_seq + placed.records, dest.reserved_seq)
          FROM placed WHERE dest.topic_id = placed.dest_id
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
                    FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id JOIN topics_topichead dest ON dest.topic_id = r.dest_id
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
          FROM topics_span span
         CROSS JOIN LATERAL (
               SELECT unnest(p_home * whole) AS run, false AS show FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole
               UNION ALL
               SELECT unnest(whole - p_home), true FROM int8multirange(int8range(home_first_seq, home_last_seq, '[]')) whole) runs
         WHERE topic_id = p_topic_id AND last_seq = p_last_seq),
    added AS (
        INSERT INTO topics_span (topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag,
                                  path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
        SELECT topic_id, last_seq - (home_last_seq - until), first_seq + (since - home_first_seq), piece_home_id, since, until, ts,
               shown AND show, keep_node, keep_tag, piece_path, stamp_router, stamp_source, stamp_source_id,
               stamp_first_seq + (since - home_first_seq)
          FROM piece WHERE until < home_last_seq)
    UPDATE topics_span span  -- the last piece keeps the row
       SET first_seq = span.first_seq + (since - span.home_first_seq), home_id = piece_home_id, home_first_seq = since,
           shown = span.shown AND show, path = piece_path, stamp_first_seq = span.stamp_first_seq + (since - span.home_first_seq)
      FROM piece
     WHERE span.topic_id = piece.topic_id AND span.last_seq = piece.last_seq AND piece.until = piece.home_last_seq
$$;


--
-- Name: span_record(public.topics_span, bigint, text, text, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.span_record(span public.topics_span, home_seq bigint, home_node text, home_tag text, home_meta json) RETURNS TABLE(seq bigint, node text, tag text, meta text)
    LANGUAGE sql STABLE ROWS 1
    AS $$
    SELECT span.first_seq + home_seq - span.home_first_seq,
           CASE WHEN span.keep_node THEN home_node END,
           CASE WHEN span.keep_tag THEN home_tag END,
           CASE WHEN span.stamp_router IS NULL THEN home_meta::text
                ELSE stamped_meta(home_meta, span.stamp_router, span.stamp_source, span.stamp_source_id,
                                  span.stamp_first_seq + home_seq - span.home_first_seq) END
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
-- Name: topic_append_judged(bigint, boolean, bigint[], bigint[], bigint[], bigint[], bigint[], json, json, json, bigint[], boolean[], bigint[], bigint[], bigint[], json, json, json, json, bigint[], integer[], bigint[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_append_judged(p_now bigint, p_volatile boolean, p_ids bigint[], p_of bigint[], p_versions bigint[], p_counts bigint[], p_bytes bigint[], p_heads json, p_keys json, p_digests json, p_since bigint[], p_sealed boolean[], p_cap_records bigint[], p_cap_bytes bigint[], p_expired bigint[], p_data json, p_tags json, p_nodes json, p_metas json, p_places bigint[], p_sizes integer[], p_runs bigint[], p_ns bigint[]) RETURNS TABLE(n bigint, verdict text, first_seq bigint, last_seq bigint, head_seq bigint, records bigint, bytes bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    -- A statement of its own: the next statement sees all that the earlier holders of these locks have committed. Locks are taken in
    -- the order of ids, so two calls cannot deadlock.
    PERFORM FROM topics_topichead WHERE topic_id = ANY (p_ids) ORDER BY topic_id FOR UPDATE;
    -- Expired records make room first: no reader sees them any more.
    IF p_expired IS NOT NULL THEN
        PERFORM topic_expire(asked.topic_id, asked.expired)
           FROM unnest(p_of, p_expired) AS asked (topic_id, expired) WHERE asked.expired IS NOT NULL;
    END IF;
    RETURN QUERY
    WITH asked AS (
        SELECT * FROM ROWS FROM (unnest(p_of), unnest(p_versions), unnest(p_counts), unnest(p_bytes),
                                 json_array_elements_text(p_heads), json_array_elements_text(p_keys),
                                 json_array_elements_text(p_digests), unnest(p_since), unnest(p_sealed),
                                 unnest(p_cap_records), unnest(p_cap_bytes))
                 WITH ORDINALITY AS asked (topic_id, version, count, bytes, expected_head, key, digest, since, sealed,
                                           cap_records, cap_bytes, n)),
    -- A key is looked up by the primary key. `+ 0` and LIMIT keep a planner that expects few keys from the index on their age, in
    -- which it would read all keys that are new enough.
    verdicts AS (
        SELECT asked.n, asked.topic_id, asked.count, asked.bytes, asked.key, asked.digest, asked.cap_records, asked.cap_bytes,
               kept.first_seq, kept.last_seq, head.head_seq, head.count AS held_records, head.bytes AS held_bytes, head.total,
               greatest(head.last_ts, p_now) AS ts,
               CASE WHEN kept.is_same THEN 'kept'
                    WHEN NOT kept.is_same THEN 'other'
                    WHEN asked.sealed THEN 'sealed'
                    WHEN asked.expected_head::bigint <> head.head_seq THEN 'head'
                    WHEN head.count + asked.count > asked.cap_records OR head.bytes + asked.bytes > asked.cap_bytes THEN 'full'
                    ELSE 'done' END AS verdict
          FROM asked
          JOIN topics_topichead head ON head.topic_id = asked.topic_id AND head.version = asked.version
          LEFT JOIN LATERAL (
               SELECT key.first_seq, key.last_seq, key.digest IS NULL OR key.digest = asked.digest::bytea AS is_same
                 FROM topics_idempotencykey key
                WHERE key.topic_id = asked.topic_id AND key.key = asked.key AND key.ts + 0 > asked.since
                LIMIT 1) kept ON true
         WHERE head.topic_id = ANY (p_ids)),
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
               count = head.count + batch.count,
               bytes = head.bytes + batch.bytes,
               total = head.total + batch.bytes,
               last_ts = greatest(head.last_ts, p_now),
               reserved_seq = topic_reserve(head.head_seq + batch.count, head.reserved_seq),
               holes_seq = CASE WHEN p_volatile THEN head.head_seq + batch.count ELSE head.holes_seq END,
               volatile_seq = CASE WHEN p_volatile THEN head.head_seq + batch.count ELSE head.volatile_seq END
          FROM (SELECT fit.topic_id, sum(fit.count)::bigint AS count, sum(fit.bytes)::bigint AS bytes
                  FROM fit GROUP BY fit.topic_id) batch
         WHERE head.topic_id = batch.topic_id AND head.topic_id = ANY (p_ids)),
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
        ON CONFLICT (topic_id, key) DO UPDATE
           SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts, digest = excluded.digest)
    SELECT fit.n, fit.verdict, fit.head_seq + fit.upto - fit.count + 1, fit.head_seq + fit.upto,
           fit.head_seq, fit.held_records, fit.held_bytes
      FROM fit
    UNION ALL
    SELECT judged.n, judged.verdict, judged.first_seq, judged.last_seq, judged.head_seq, judged.held_records, judged.held_bytes
      FROM judged
     WHERE NOT judged.fits;
END
$$;


--
-- Name: topic_as_expired(public.topics_topichead, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_as_expired(head public.topics_topichead, p_expired_ts bigint) RETURNS public.topics_topichead
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    cut   bigint := topic_seq_at(head.topic_id, head.floor_seq, head.head_seq, p_expired_ts) - 1;  -- the last expired seq
    floor bigint := cut;
BEGIN
    IF cut <= head.floor_seq THEN
        RETURN head;
    END IF;
    IF cut < head.holes_seq THEN  -- holes may follow
        floor := coalesce(topic_first_live(head.topic_id, cut) - 1, head.head_seq);
    END IF;
    head.ttl_lost_seq := CASE WHEN cut > head.holes_seq THEN cut ELSE topic_last_live(head.topic_id, head.floor_seq, cut) END;
    head.restart_lost_seq := greatest(head.restart_lost_seq, topic_last_loss(head.topic_id, head.floor_seq, floor, 'restart'));
    head.source_lost_seq := greatest(head.source_lost_seq, topic_last_loss(head.topic_id, head.floor_seq, floor, 'source_trim'));
    head.floor_seq := floor;
    head.count := NULL;
    head.bytes := NULL;
    RETURN head;
END
$$;


--
-- Name: topic_delete_below(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_delete_below(p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_before_seq bigint) RETURNS TABLE(deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- an expired record was lost, not deleted
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    SELECT records INTO deleted FROM topic_trim(p_topic_id, p_before_seq - 1, 'delete');
    RETURN QUERY
    SELECT deleted, floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = p_topic_id;
END
$$;


--
-- Name: topic_delete_marked(bigint, bigint, bigint, bigint[], bigint[], integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_delete_marked(p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_ns bigint[], p_seqs bigint[], p_sizes integer[]) RETURNS TABLE(n bigint, deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    seen bigint;  -- the floor under the lock: evictions and expiry since the mark counted the records below it
    gone record;
BEGIN
    SELECT floor_seq INTO seen FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    SELECT count(*) AS records, sum(size) AS bytes, min(seq) AS first, max(seq) AS last INTO gone
      FROM unnest(p_seqs, p_sizes) marked (seq, size) WHERE seq > seen;
    IF gone.records > 0 THEN
        UPDATE topics_topichead SET holes_seq = greatest(holes_seq, gone.last) WHERE topic_id = p_topic_id;
        PERFORM topic_shrink(p_topic_id, seen, gone.records, gone.bytes);
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- last, because expiry must find the count without the marked records
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN QUERY
    SELECT each.n, each.records, least(floor_seq + 1, CASE WHEN row_number() OVER by_first > 1 THEN gone.first END), head_seq,
           count + (sum(each.records) OVER by_first)::bigint - each.records, bytes + (sum(each.size) OVER by_first)::bigint - each.size
      FROM (SELECT n, count(*) FILTER (WHERE seq > seen) AS records, coalesce(sum(size) FILTER (WHERE seq > seen), 0)::bigint AS size,
                   min(seq) FILTER (WHERE seq > seen) AS first
              FROM unnest(p_ns, p_seqs, p_sizes) marked (n, seq, size) GROUP BY n) each
     CROSS JOIN topics_topichead
     WHERE topic_id = p_topic_id
    WINDOW by_first AS (ORDER BY first, each.n ROWS UNBOUNDED PRECEDING);
END
$$;


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
    IF p_op = 'Eq' THEN
        WITH marked AS (
            UPDATE topics_record SET deleted = true
             WHERE topic_id = p_topic_id AND seq > head.floor_seq AND seq <= upto AND NOT deleted AND tag = p_tag
               AND (p_expired_ts IS NULL OR ts >= p_expired_ts)
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

    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
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
        UPDATE topics_topichead SET holes_seq = greatest(holes_seq, last) WHERE topic_id = p_topic_id;
        PERFORM topic_shrink(p_topic_id, head.floor_seq, deleted, bytes);
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN NEXT deleted;
END
$_$;


--
-- Name: topic_delete_seqs(bigint, bigint, bigint[], bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_delete_seqs(p_topic_id bigint, p_version bigint, p_seqs bigint[], p_expired_ts bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
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
    WITH marked AS (
        UPDATE topics_record SET deleted = true
         WHERE topic_id = p_topic_id AND seq = ANY (p_seqs) AND seq > head.floor_seq AND seq <= head.head_seq AND NOT deleted
           AND (p_expired_ts IS NULL OR ts >= p_expired_ts)
        RETURNING seq, size)
    SELECT array_agg(seq), array_agg(size) INTO seqs, sizes FROM marked;

    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id AND version = p_version FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM topic_outdated();
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
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
                     CROSS JOIN LATERAL (SELECT * FROM topics_span
                                          WHERE topic_id = p_topic_id AND last_seq >= asked.seq ORDER BY last_seq LIMIT 1) span
                     WHERE asked.seq > cut AND asked.seq <= head.holes_seq AND first_seq <= asked.seq AND shown
                     GROUP BY span.last_seq, home_id) found
        LOOP
            PERFORM span_hide(p_topic_id, piece.last_seq, piece.hits, false);
            deleted := deleted + piece.records;
            bytes := bytes + piece.bytes;
            last := greatest(last, piece.last);
        END LOOP;
    END IF;
    IF deleted > 0 THEN
        UPDATE topics_topichead SET holes_seq = greatest(holes_seq, last) WHERE topic_id = p_topic_id;
        PERFORM topic_shrink(p_topic_id, head.floor_seq, deleted, bytes);
    END IF;
    IF p_expired_ts IS NOT NULL THEN  -- last, because the search for the first live record skips marked ones
        PERFORM topic_expire(p_topic_id, p_expired_ts);
    END IF;
    RETURN deleted;
END
$$;


--
-- Name: topic_diff(bigint, bigint, bigint, integer, text[], text, text, boolean, boolean, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_diff(p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint, OUT lost text, OUT gap_to bigint, OUT lost_from bigint) RETURNS SETOF record
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
DECLARE
    head   topics_topichead;
    after  bigint;  -- the window begins after it
    upto   bigint;
    base   bigint;
    holes record;
BEGIN
    SELECT * INTO head FROM topics_topichead h WHERE h.topic_id = p_topic_id AND h.version = p_version;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        head := topic_as_expired(head, p_expired_ts);
    END IF;
    head_seq := head.head_seq;
    earliest_seq := head.floor_seq + 1;

    -- The losses between p_from_seq and the floor, with their reasons.
    after := greatest(p_from_seq, head.floor_seq);
    IF p_from_seq > head.head_seq THEN
        lost := 'recreated';
        after := head.floor_seq;
    ELSIF head.recreated_seq > 0 AND head.recreated_seq >= p_from_seq AND head.head_seq > p_from_seq THEN
        lost := 'recreated';
    ELSIF greatest(head.cap_lost_seq, head.ttl_lost_seq, head.restart_lost_seq, head.source_lost_seq) > p_from_seq THEN
        SELECT CASE WHEN count(*) > 1 THEN 'mixed' ELSE min(why) END INTO lost
          FROM (VALUES ('cap', head.cap_lost_seq), ('ttl', head.ttl_lost_seq),
                       ('restart', head.restart_lost_seq), ('source_trim', head.source_lost_seq)) loss (why, seq)
         WHERE seq > p_from_seq;
        IF head.restart_lost_seq > p_from_seq THEN
            lost_from := topic_lost_from(p_topic_id, p_from_seq);
        END IF;
    END IF;
    gap_to := head.floor_seq;

    IF after < head.holes_seq THEN
        -- An assignment, because a SELECT makes a small read a tenth slower.
        holes := topic_diff_with_holes(head, after, lost, p_limit, p_nodes, p_match_op, p_match, p_with_tags, p_with_meta, p_bytes);
        records := holes.records;
        scanned := holes.scanned;
        next_from_seq := holes.next_from_seq;
        lost := holes.lost;
        gap_to := holes.gap_to;
        IF lost = 'restart' AND lost_from IS NULL THEN
            lost_from := topic_lost_from(p_topic_id, p_from_seq);
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    upto := least(after + p_limit, head.head_seq);
    IF upto <= after THEN
        scanned := 0;
        next_from_seq := upto;
        RETURN NEXT;
        RETURN;
    END IF;

    -- Own, live, logged records without a hole. `total` grows with each record, so the byte budget is a bound on it. The
        -- first record always fits.
    IF upto > after + 1 THEN
        SELECT total - size + p_bytes INTO base FROM topics_record_logged WHERE topic_id = p_topic_id AND seq = after + 1;
    END IF;
    SELECT string_agg(record_json(seq, ts, node, tag, meta::text, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
               FILTER (WHERE (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                         AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
           count(*), coalesce(max(seq), upto)
      INTO records, scanned, next_from_seq
      FROM topics_record_logged
     WHERE topic_id = p_topic_id AND seq > after AND seq <= upto
       AND (total <= base OR seq = after + 1);
    RETURN NEXT;
END
$$;


--
-- Name: topic_diff_matches(bigint, bigint, bigint, integer, text[], text, text, text, text, boolean, boolean, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_diff_matches(p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_match_end text, p_order text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint, p_most integer, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint, OUT lost text, OUT gap_to bigint, OUT lost_from bigint, OUT scanned_to bigint) RETURNS SETOF record
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
DECLARE
    after bigint;  -- the range to read begins after it
    upto  bigint;  -- and ends here
    last  bigint;
BEGIN
    -- The head, and the loss that the reader meets. No tag equals NULL, so this window renders no record.
    SELECT d.head_seq, d.earliest_seq, d.lost, d.gap_to, d.lost_from INTO head_seq, earliest_seq, lost, gap_to, lost_from
      FROM topic_diff(p_topic_id, p_version, CASE p_order WHEN 'asc' THEN p_from_seq ELSE 0 END, 1, NULL, 'Eq', NULL, false, false,
                      1, p_expired_ts) d;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_order = 'asc' THEN  -- the window ends before the next loss, as in topic_diff_with_holes
        after := CASE WHEN p_from_seq > head_seq THEN gap_to ELSE greatest(p_from_seq, gap_to) END;
        upto := least(head_seq, (SELECT first_seq - 1 FROM topics_span WHERE topic_id = p_topic_id AND home_id IS NULL
                                    AND last_seq > after ORDER BY last_seq LIMIT 1));
    ELSE
        lost := NULL;
        lost_from := NULL;
        after := earliest_seq - 1;
        upto := CASE WHEN p_from_seq > 0 THEN least(p_from_seq - 1, head_seq) ELSE head_seq END;
    END IF;
    scanned := 0;
    IF upto > after THEN
        SELECT m.records, m.scanned, m.last, m.scanned_to INTO records, scanned, last, scanned_to
          FROM topic_matching(p_topic_id, after, upto, p_limit, p_nodes, p_match_op, p_match, p_match_end, p_order, p_with_tags,
                              p_with_meta, p_bytes, p_most) m;
    END IF;
    next_from_seq := CASE p_order WHEN 'asc' THEN coalesce(last, after)
                                  WHEN 'desc' THEN coalesce(last, earliest_seq)
                                  ELSE head_seq END;
    RETURN NEXT;
END
$$;


--
-- Name: topic_diff_with_holes(public.topics_topichead, bigint, text, integer, text[], text, text, boolean, boolean, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_diff_with_holes(p_head public.topics_topichead, p_after bigint, p_lost text, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT lost text, OUT gap_to bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    topic constant bigint := p_head.topic_id;
    after bigint := p_after;
    upto  bigint;  -- the window's end
    last  bigint;  -- the window ends here at the latest
    live  bigint;
    loss  record;
BEGIN
    lost := p_lost;
    gap_to := p_head.floor_seq;
    SELECT first_seq, last_seq, path INTO loss FROM topics_span
     WHERE topic_id = topic AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
    IF FOUND THEN
        live := topic_first_live(topic, after);
        IF (lost IS NULL OR lost = 'recreated') AND (live IS NULL OR live > loss.first_seq) THEN
            lost := coalesce(lost, CASE WHEN loss.path = '{}' THEN 'restart' ELSE 'source_trim' END);
            gap_to := loss.last_seq;
            after := loss.last_seq;
            SELECT first_seq INTO loss FROM topics_span
             WHERE topic_id = topic AND home_id IS NULL AND last_seq > after ORDER BY last_seq LIMIT 1;
        END IF;
    END IF;
    last := least(p_head.head_seq, loss.first_seq - 1);

    IF p_head.count = p_head.head_seq - p_head.floor_seq THEN  -- no hole: every seq is live
        upto := least(after + p_limit, last);
    ELSE  -- the p_limit-th live seq, among p_limit next records and p_limit next spans
        SELECT last_seq - (run - p_limit) INTO upto
          FROM (SELECT last_seq, sum(length) OVER (ORDER BY last_seq) AS run
                  FROM ((SELECT seq AS last_seq, 1 AS length FROM topics_record
                          WHERE topic_id = topic AND seq > after AND seq <= last AND NOT deleted ORDER BY seq LIMIT p_limit)
                        UNION ALL
                        (SELECT last_seq, last_seq - greatest(first_seq, after + 1) + 1 FROM topics_span
                          WHERE topic_id = topic AND last_seq > after AND shown ORDER BY last_seq LIMIT p_limit)) entry) entry
         WHERE run >= p_limit ORDER BY last_seq LIMIT 1;
        upto := coalesce(least(upto, last), last);
    END IF;

    SELECT string_agg(record_json(seq, ts, node, tag, meta, data, p_with_tags, p_with_meta), ',' ORDER BY seq)
               FILTER (WHERE fits AND (p_nodes IS NULL OR node IS NULL OR node <> ALL (p_nodes))
                         AND (p_match_op IS NULL OR tag = p_match OR (p_match_op = 'Glob' AND starts_with(tag, p_match)))),
           count(*) FILTER (WHERE fits),
           -- If the byte budget cut no record off, the read examined the window to its end.
           CASE WHEN bool_and(fits) IS FALSE THEN max(seq) FILTER (WHERE fits) ELSE upto END
      INTO records, scanned, next_from_seq
      FROM (SELECT *, run <= p_bytes OR run = size AS fits  -- the first record always fits
              FROM (SELECT *, sum(size) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS run
                      FROM (SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
                             WHERE topic_id = topic AND seq > after AND seq <= upto AND NOT deleted
                            UNION ALL
                            SELECT seq, ts, node, tag, meta, data, size FROM topic_forwarded(topic, after + 1, upto)) row) row) row;
END
$$;


--
-- Name: topic_evict(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_evict(p_topic_id bigint, p_cap_records bigint, p_cap_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        SELECT (topic_trim(topic_id, topic_floor_for(topic_id, over_records, over_bytes), 'cap')).records
          FROM (SELECT topic_id,
                       CASE WHEN p_cap_records > 0 THEN count - p_cap_records ELSE 0 END AS over_records,
                       CASE WHEN p_cap_bytes > 0 THEN bytes - p_cap_bytes ELSE 0 END AS over_bytes
                  FROM topics_topichead WHERE topic_id = p_topic_id) head
         WHERE over_records > 0 OR over_bytes > 0);
END
$$;


--
-- Name: topic_expire(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_expire(p_topic_id bigint, p_expired_ts bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF p_expired_ts IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT (topic_trim(topic_id, topic_seq_at(topic_id, floor_seq, head_seq, p_expired_ts) - 1, 'ttl')).records
          FROM topics_topichead WHERE topic_id = p_topic_id);
END
$$;


--
-- Name: topic_extent(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_extent(p_topic_id bigint, p_first bigint, p_last bigint, p_holes_seq bigint, OUT records bigint, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    plain bigint := greatest(p_first, p_holes_seq + 1);
    upto  bigint := least(p_last, p_holes_seq);
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
    -- The body of topic_range_bytes: a call of it for each of many short spans would take three times as long.
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
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN least(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1),
        (SELECT greatest(first_seq, p_after + 1) FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1));
END
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
    IF topic_is_whole(head) THEN
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
                   FROM topics_span WHERE topic_id = p_topic_id AND last_seq > floor AND shown ORDER BY last_seq LIMIT batch)) entries
             ORDER BY last_seq LIMIT batch
        LOOP
            size := coalesce(entry.own_size, topic_range_bytes(entry.home_id, entry.home_since, entry.home_last_seq));
            IF entry.home_last_seq - entry.home_since + 1 >= records AND size >= bytes THEN  -- the new floor is in this entry
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
-- Name: topic_forwarded(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_forwarded(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS TABLE(seq bigint, ts bigint, node text, tag text, meta text, data json, size integer, home_id bigint, home_seq bigint, path text[])
    LANGUAGE sql STABLE
    AS $$
    SELECT record.seq, span.ts, record.node, record.tag, record.meta, home.data, home.size, span.home_id, home.seq, span.path
      FROM topic_spans(p_topic_id, p_first, p_last) span
     CROSS JOIN LATERAL (
           SELECT seq, node, tag, meta, data, size FROM topics_record
            WHERE topic_id = span.home_id
              AND seq >= span.home_first_seq + greatest(p_first - span.first_seq, 0)
              AND seq <= span.home_last_seq - greatest(span.last_seq - p_last, 0)
           OFFSET 0) home
     CROSS JOIN LATERAL span_record(span, home.seq, home.node, home.tag, home.meta) record
     WHERE span.shown
$$;


--
-- Name: topic_is_whole(public.topics_topichead); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_is_whole(head public.topics_topichead) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN head.floor_seq >= head.holes_seq
        OR head.count = head.head_seq - head.floor_seq
       AND (SELECT last_seq FROM topics_span
             WHERE topic_id = head.topic_id AND last_seq > head.floor_seq ORDER BY last_seq LIMIT 1) IS NULL;
END
$$;


--
-- Name: topic_last_head(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_last_head(p_name text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN coalesce((SELECT head_seq FROM topics_lasthead WHERE name = p_name COLLATE "C"), 0);
END
$$;


--
-- Name: topic_last_live(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_last_live(p_topic_id bigint, p_after bigint, p_upto bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN greatest(
        (SELECT seq FROM topics_record
          WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted ORDER BY seq DESC LIMIT 1),
        (SELECT last_seq FROM topics_span
          WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND shown ORDER BY last_seq DESC LIMIT 1),
        (SELECT p_upto FROM (SELECT first_seq, shown FROM topics_span
                              WHERE topic_id = p_topic_id AND last_seq > p_upto ORDER BY last_seq LIMIT 1) beyond
          WHERE first_seq <= p_upto AND shown));
END
$$;


--
-- Name: topic_last_loss(bigint, bigint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_last_loss(p_topic_id bigint, p_after bigint, p_upto bigint, p_why text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (
        SELECT last_seq FROM topics_span
         WHERE topic_id = p_topic_id AND last_seq > p_after AND last_seq <= p_upto AND home_id IS NULL
           AND (path = '{}') = (p_why = 'restart')
         ORDER BY last_seq DESC LIMIT 1);
END
$$;


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
    created_ts bigint NOT NULL,
    sealed boolean DEFAULT false NOT NULL
);


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
    record.seq,
    s.ts,
    record.node,
    record.tag,
    (record.meta)::json AS meta,
    r.data,
    COALESCE(home.name, gone.name) AS home_topic,
    s.home_id AS home_topic_id,
    r.seq AS home_seq,
    s.path
   FROM ((((((public.topics_topic t
     JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     JOIN public.topics_span s ON (((s.topic_id = t.id) AND (s.last_seq > h.floor_seq) AND s.shown)))
     JOIN public.topics_record r ON (((r.topic_id = s.home_id) AND (r.seq >= (s.home_first_seq + GREATEST(((h.floor_seq + 1) - s.first_seq), (0)::bigint))) AND (r.seq <= s.home_last_seq))))
     CROSS JOIN LATERAL public.span_record(s.*, r.seq, r.node, r.tag, r.meta) record(seq, node, tag, meta))
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
    SELECT t.name, f.seq, f.ts, f.node, f.tag, f.meta::json, f.data, home.name, f.home_id, f.home_seq, f.path
      FROM topics_topic t
      JOIN topics_topichead h ON h.topic_id = t.id
     CROSS JOIN LATERAL topic_forwarded(t.id, greatest(p_first, h.floor_seq + 1), p_last) f
     CROSS JOIN LATERAL (
           SELECT coalesce((SELECT name FROM topics_topic WHERE id = f.home_id),
                           (SELECT name FROM topics_deletedtopic WHERE id = f.home_id)) AS name OFFSET 0) home
     WHERE t.name = p_topic
       AND (t.ttl_ms = 0 OR f.ts >= extract(epoch FROM statement_timestamp()) * 1000 - t.ttl_ms)
$$;


--
-- Name: topic_lost_from(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_lost_from(p_topic_id bigint, p_from_seq bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN least(p_from_seq + 1, (
        SELECT first_seq FROM topics_crashloss
         WHERE topic_id = p_topic_id AND last_seq > p_from_seq ORDER BY last_seq LIMIT 1));
END
$$;


--
-- Name: topic_make_room(public.topics_topichead, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_make_room(head public.topics_topichead, p_expired_ts bigint, p_cap_records bigint, p_cap_bytes bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    floor   bigint := head.floor_seq;
    expired bigint := head.floor_seq;  -- the last evicted seq that has expired
BEGIN
    IF NOT topic_is_whole(head) THEN
        PERFORM topic_expire(head.topic_id, p_expired_ts);
        PERFORM topic_evict(head.topic_id, p_cap_records, p_cap_bytes);
        RETURN;
    END IF;
    IF p_cap_records > 0 THEN
        floor := greatest(floor, head.head_seq - p_cap_records);
    END IF;
    IF p_cap_bytes > 0 AND head.bytes > p_cap_bytes THEN
        floor := greatest(floor, topic_seq_of_bytes(head.topic_id, head.floor_seq + 1, head.head_seq, head.bytes - p_cap_bytes));
    END IF;
    IF p_expired_ts IS NOT NULL THEN
        expired := topic_seq_at(head.topic_id, head.floor_seq, floor, p_expired_ts) - 1;
    END IF;
    UPDATE topics_topichead
       SET floor_seq = floor,
           count = head.head_seq - floor,
           bytes = head.total - (SELECT total FROM topics_record WHERE topic_id = head.topic_id AND seq = floor),
           ttl_lost_seq = CASE WHEN expired > head.floor_seq THEN expired ELSE head.ttl_lost_seq END,
           cap_lost_seq = CASE WHEN expired < floor THEN floor ELSE head.cap_lost_seq END
     WHERE topic_id = head.topic_id;
END
$$;


--
-- Name: topic_mark_tagged(bigint[], bigint[], bigint[], bigint[], text[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_mark_tagged(p_ids bigint[], p_versions bigint[], p_expired_ts bigint[], p_of bigint[], p_tags text[], p_before_seqs bigint[]) RETURNS TABLE(of_topic bigint, of_version bigint, of_expired_ts bigint, ns bigint[], seqs bigint[], sizes integer[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    -- One delete by tag at a time in a topic (topic_delete_match).
    PERFORM pg_advisory_xact_lock(7003, (id % 2147483648)::integer) FROM unnest(p_ids) id;
    FOR of_topic, of_version, of_expired_ts, ns, seqs, sizes IN
        SELECT head.topic_id, head.version, expired_ts, array_agg(n), array_agg(seq), array_agg(size)
          FROM unnest(p_ids, p_versions, p_expired_ts) WITH ORDINALITY AS known (topic_id, version, expired_ts, place)
          JOIN topics_topichead head USING (topic_id, version)
          JOIN unnest(p_of, p_tags, p_before_seqs) WITH ORDINALITY AS asked (place, tag, before_seq, n) USING (place)
          -- One comparison of tag and seq leaves the planner one index to use, whatever it estimates.
          LEFT JOIN LATERAL (SELECT seq, size FROM topics_record
                              WHERE topic_id = head.topic_id AND tag = asked.tag AND (tag, seq) > (asked.tag, floor_seq)
                                AND (tag, seq) <= (asked.tag, least(before_seq - 1, head_seq)) AND NOT deleted
                                AND (expired_ts IS NULL OR ts >= expired_ts)
                              LIMIT 5001) found ON true
         WHERE head.topic_id = ANY (p_ids)
           AND NOT EXISTS (SELECT FROM topics_span
                            WHERE topic_id = head.topic_id AND last_seq > floor_seq AND home_id IS NOT NULL)
         GROUP BY place, head.topic_id, head.version, expired_ts
         ORDER BY place
    LOOP
        CONTINUE WHEN cardinality(seqs) > 5000;
        UPDATE topics_record SET deleted = true WHERE topic_id = of_topic AND seq = ANY (seqs);
        RETURN NEXT;
    END LOOP;
END
$$;


--
-- Name: topic_matching(bigint, bigint, bigint, integer, text[], text, text, text, text, boolean, boolean, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_matching(p_topic_id bigint, p_after bigint, p_upto bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_match_end text, p_order text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_most integer, OUT records text, OUT scanned bigint, OUT last bigint, OUT scanned_to bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_sort TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_seqscan TO 'off'
    AS $_$
#variable_conflict use_column
DECLARE
    few     constant integer := greatest(p_most / 5, 1);
    up      constant boolean := p_order = 'asc';
    way     constant text := CASE WHEN up THEN 'ASC' ELSE 'DESC' END;
    in_tags constant text := format('tag %1$s, seq %1$s', way);
    in_seqs constant text := 'seq ' || way;
    prefix  constant text := CASE WHEN p_match_end IS NULL THEN 'tag >= $6' ELSE 'tag >= $6 AND tag < $7' END;
    reach   bigint;           -- the last span of the range ends here
    pieces  integer := few;   -- spans to examine
    entries bigint;           -- records with the prefix
    within  text := 'seq > %1$s AND seq <= %2$s';  -- the condition on records of a home
    indexed text := in_seqs;  -- the order of the index that this condition uses
    ordered text := in_seqs;  -- the order of the matches
    fits    text := '';       -- the condition on tags that no index answers
    is_full boolean;
    bound   bigint;
BEGIN
    reach := coalesce((SELECT last_seq FROM topics_span WHERE topic_id = p_topic_id AND last_seq >= p_upto ORDER BY last_seq LIMIT 1),
                      p_upto);
    IF p_match_op = 'Glob' AND p_upto - p_after > few THEN
        EXECUTE format(
            'SELECT count(*) FROM (
                 SELECT FROM (SELECT $1 AS id
                              UNION
                              SELECT home_id FROM (SELECT home_id, shown, keep_tag FROM topics_span
                                                    WHERE topic_id = $1 AND last_seq > $2 AND last_seq <= $3
                                                    ORDER BY last_seq %1$s LIMIT $4) piece WHERE shown AND keep_tag) home
                  CROSS JOIN LATERAL (SELECT FROM topics_record WHERE topic_id = home.id AND %2$s ORDER BY tag, seq OFFSET 0) entry
                  LIMIT $4 + 1) entry', way, prefix)
           INTO entries USING p_topic_id, p_after, reach, few, NULL::text, p_match, p_match_end;
    END IF;
    IF p_match_op = 'Eq' THEN  -- with `tag = $6`, PostgreSQL would read the tag's records from the first one on
        within := 'tag IS NOT NULL AND (tag, seq) > ($6, %1$s) AND (tag, seq) <= ($6, %2$s)';
        indexed := in_tags;
        ordered := in_tags;
    ELSIF entries <= few THEN
        within := within || ' AND ' || prefix;
        indexed := in_tags;
        pieces := least(few, 1 + p_most * 4 / (entries + 1));  -- each span reads the whole prefix of its home
    ELSIF p_match_op = 'Glob' THEN
        fits := ' AND starts_with(tag, $6)';
    END IF;

    EXECUTE format(
        -- A part keeps its matches and its last record. The n of this record is $10 if the bound ended the part.
        'WITH pieces AS MATERIALIZED (
             SELECT span, span.* FROM topics_span span
              WHERE topic_id = $1 AND last_seq > $2 AND last_seq <= $4 AND first_seq <= $3 ORDER BY last_seq %1$s LIMIT $5),
         own AS MATERIALIZED (
             SELECT * FROM (
                 SELECT *, row_number() OVER () AS n, lead(seq) OVER () AS following FROM (
                     SELECT NULL::topics_span AS span, seq AS home_seq, seq, ts, node, tag, meta, data, size,
                            NOT deleted AND ($8 IS NULL OR node IS NULL OR node <> ALL ($8)) %6$s AS fits
                       FROM (SELECT * FROM topics_record WHERE topic_id = $1 AND %4$s ORDER BY %2$s OFFSET 0) record
                      ORDER BY %3$s LIMIT $10) record) record
              WHERE fits OR following IS NULL LIMIT $9),
         forwarded AS MATERIALIZED (
             SELECT * FROM (
                 SELECT *, row_number() OVER () AS n, lead(seq) OVER () AS following FROM (
                     SELECT span, home.seq AS home_seq, first_seq + home.seq - home_first_seq AS seq, ts, node, tag, meta, data, size,
                            ($8 IS NULL OR NOT keep_node OR node IS NULL OR node <> ALL ($8)) %6$s AS fits
                       FROM pieces
                      CROSS JOIN LATERAL (
                            SELECT * FROM (SELECT seq, node, tag, meta, data, size FROM topics_record
                                            WHERE topic_id = pieces.home_id AND %5$s ORDER BY %2$s OFFSET 0) record
                             ORDER BY %3$s) home
                      WHERE shown AND (keep_tag OR $14 IS NULL)
                      LIMIT $10) record) record
              WHERE fits OR following IS NULL LIMIT $9),
         bound AS (
             SELECT %7$s(%8$s, (SELECT seq FROM own WHERE n = $10), (SELECT seq FROM forwarded WHERE n = $10),
                         (SELECT %9$s FROM pieces HAVING count(*) = $5)) AS seq),
         found AS (
             SELECT * FROM (SELECT * FROM own UNION ALL SELECT * FROM forwarded) record
              WHERE fits AND seq %10$s (SELECT seq FROM bound) ORDER BY seq %1$s LIMIT $9)
         SELECT string_agg(record_json(seq, ts, shown.node, shown.tag, shown.meta, data, $12, $13), '','' ORDER BY seq %11$s)
                    FILTER (WHERE has_room),
                count(*) = $9 OR bool_and(has_room) IS FALSE, %12$s(seq) FILTER (WHERE has_room), (SELECT seq FROM bound),
                coalesce((SELECT max(n) FROM own), 0) + coalesce((SELECT max(n) FROM forwarded), 0)
           FROM (SELECT *, run <= $11 OR run = size AS has_room  -- the first record always has
                   FROM (SELECT *, sum(size) OVER (ORDER BY seq %1$s ROWS UNBOUNDED PRECEDING) AS run FROM found) record) record
          CROSS JOIN LATERAL (SELECT record.node, record.tag, record.meta::text WHERE (span).topic_id IS NULL
                              UNION ALL
                              SELECT shown.node, shown.tag, shown.meta
                                FROM span_record(span, home_seq, record.node, record.tag, record.meta) shown
                               WHERE (span).topic_id IS NOT NULL) shown',
        way, indexed, ordered, format(within, '$2', '$3'),
        format(within, 'pieces.home_first_seq + greatest($2 - pieces.first_seq, -1)',
                       'pieces.home_last_seq - greatest(pieces.last_seq - $3, 0)'),
        fits,
        CASE WHEN up THEN 'least' ELSE 'greatest' END, CASE WHEN up THEN '$3' ELSE '$2 + 1' END,
        CASE WHEN up THEN 'max(last_seq)' ELSE 'min(first_seq)' END, CASE WHEN up THEN '<=' ELSE '>=' END,
        CASE p_order WHEN 'desc' THEN 'DESC' ELSE 'ASC' END, CASE WHEN up THEN 'max' ELSE 'min' END)
       INTO records, is_full, last, bound, scanned
      USING p_topic_id, p_after, p_upto, reach, pieces, p_match, p_match_end, p_nodes, p_limit, p_most, p_bytes, p_with_tags,
            p_with_meta, p_match_op;
    IF NOT is_full THEN
        last := bound;
        scanned_to := nullif(bound, CASE WHEN up THEN p_upto ELSE p_after + 1 END);
    END IF;
END
$_$;


--
-- Name: topic_next(bigint, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_next(p_topic_id bigint, p_after bigint, p_upto bigint, p_limit integer) RETURNS TABLE(seq bigint, ts bigint, node text, tag text, meta text, data json, size integer)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    last bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM topics_span WHERE topic_id = p_topic_id AND last_seq > p_after AND shown) THEN
        RETURN QUERY
        SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
         WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted
         ORDER BY seq LIMIT p_limit;
        RETURN;
    END IF;
    SELECT last_seq - (run - p_limit) INTO last
      FROM (SELECT last_seq, sum(length) OVER (ORDER BY last_seq) AS run
              FROM ((SELECT seq AS last_seq, 1 AS length FROM topics_record
                      WHERE topic_id = p_topic_id AND seq > p_after AND seq <= p_upto AND NOT deleted ORDER BY seq LIMIT p_limit)
                    UNION ALL
                    (SELECT last_seq, last_seq - greatest(first_seq, p_after + 1) + 1 FROM topics_span
                      WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT p_limit)) entry) entry
     WHERE run >= p_limit ORDER BY last_seq LIMIT 1;
    last := coalesce(least(last, p_upto), p_upto);
    RETURN QUERY
    SELECT * FROM (
        SELECT seq, ts, node, tag, meta::text, data, size FROM topics_record
         WHERE topic_id = p_topic_id AND seq > p_after AND seq <= last AND NOT deleted
        UNION ALL
        SELECT seq, ts, node, tag, meta, data, size FROM topic_forwarded(p_topic_id, p_after + 1, last)) entry
     ORDER BY seq;
END
$$;


--
-- Name: topic_next_ts(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_next_ts(p_topic_id bigint, p_after bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (
        SELECT ts FROM (
            (SELECT seq, ts FROM topics_record
              WHERE topic_id = p_topic_id AND seq > p_after AND NOT deleted ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT last_seq, ts FROM topics_span
              WHERE topic_id = p_topic_id AND last_seq > p_after AND shown ORDER BY last_seq LIMIT 1)) next (seq, ts)
         ORDER BY seq LIMIT 1);
END
$$;


--
-- Name: topic_outdated(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_outdated() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'the topic was configured anew';
END
$$;


--
-- Name: topic_range_bytes(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (SELECT total FROM topics_record WHERE topic_id = p_home_id AND seq = p_last)
         - (SELECT total - size FROM topics_record WHERE topic_id = p_home_id AND seq = p_first);
END
$$;


--
-- Name: topic_reserve(bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_reserve(p_head_seq bigint, p_reserved_seq bigint) RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT CASE WHEN p_head_seq < p_reserved_seq THEN p_reserved_seq
                WHEN set_config('synchronous_commit', 'on', true) = 'on'
                THEN p_head_seq + least(greatest(p_head_seq / 8, 8192), 1000000) END
$$;


--
-- Name: topic_seq_at(bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_seq_at(p_topic_id bigint, p_after bigint, p_head bigint, p_ts bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    low   bigint := p_after + 1;  -- all seqs below are older
    high  bigint := p_head + 1;   -- all seqs from here on are not older
    probe bigint := low;          -- the oldest first, because usually no record is older
    place record;
    step  topics_clockstep;
    ahead boolean;
BEGIN
    SELECT * INTO step FROM topics_clockstep WHERE topic_id = p_topic_id;  -- few topics have one
    ahead := step.until_ts > extract(epoch FROM statement_timestamp()) * 1000;
    WHILE low < high LOOP
        SELECT first_seq, last_seq, ts INTO place FROM (
            (SELECT seq AS first_seq, seq AS last_seq, ts FROM topics_record
              WHERE topic_id = p_topic_id AND seq >= probe AND seq <= p_head ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT first_seq, last_seq, ts FROM topics_span
              WHERE topic_id = p_topic_id AND last_seq >= probe ORDER BY last_seq LIMIT 1)) place
         ORDER BY last_seq LIMIT 1;
        IF NOT FOUND THEN
            high := probe;
        ELSIF (CASE WHEN ahead AND place.last_seq <= step.upto_seq THEN least(place.ts, step.ts)
                    WHEN NOT ahead AND place.last_seq > step.upto_seq THEN greatest(place.ts, step.until_ts)
                    ELSE place.ts END) >= p_ts THEN
            high := probe;
            IF place.first_seq < probe THEN high := greatest(place.first_seq, low); END IF;
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
    wanted bigint;  -- the running total that the result reaches
    found  bigint;
    low    bigint := least(p_first + 100, p_last);
    high   bigint := p_last;
    probe  bigint;
BEGIN
    SELECT total - size + p_bytes INTO wanted FROM topics_record WHERE topic_id = p_home_id AND seq = p_first;
    SELECT seq INTO found
      FROM (SELECT seq, total FROM topics_record WHERE topic_id = p_home_id AND seq >= p_first AND seq < low ORDER BY seq) oldest
     WHERE total >= wanted ORDER BY seq LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    WHILE low < high LOOP
        probe := (low + high) / 2;
        IF (SELECT total >= wanted FROM topics_record WHERE topic_id = p_home_id AND seq = probe) THEN
            high := probe;
        ELSE
            low := probe + 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;


--
-- Name: topic_shown(bigint, bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_shown(p_topic_id bigint, p_seqs bigint[]) RETURNS TABLE(seq bigint, ts bigint, node text, tag text, meta text, data json, size integer)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT own.seq, own.ts, own.node, own.tag, own.meta::text, own.data, own.size
      FROM unnest(p_seqs) AS asked (seq)
     CROSS JOIN LATERAL (SELECT * FROM topics_record WHERE topic_id = p_topic_id AND seq = asked.seq OFFSET 0) own
     WHERE NOT own.deleted;
    -- Spans below the seqs may be hidden, in any number: their records were deleted.
    IF EXISTS (SELECT FROM topics_span
                WHERE topic_id = p_topic_id AND last_seq >= (SELECT min(seq) FROM unnest(p_seqs) seq) AND shown) THEN
        RETURN QUERY
        SELECT forwarded.seq, forwarded.ts, forwarded.node, forwarded.tag, forwarded.meta, forwarded.data, forwarded.size
          FROM unnest(p_seqs) AS asked (seq)
         CROSS JOIN LATERAL (SELECT * FROM topic_forwarded(p_topic_id, asked.seq, asked.seq) OFFSET 0) forwarded;
    END IF;
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
    ELSIF floor < head.holes_seq THEN
        floor := topic_first_live(p_topic_id, floor) - 1;
    END IF;
    IF head.floor_seq < head.holes_seq THEN
        head.restart_lost_seq := greatest(head.restart_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'restart'));
        head.source_lost_seq := greatest(head.source_lost_seq, topic_last_loss(p_topic_id, head.floor_seq, floor, 'source_trim'));
    END IF;
    UPDATE topics_topichead
       SET floor_seq = floor, count = count - p_records, bytes = bytes - p_bytes,
           restart_lost_seq = head.restart_lost_seq, source_lost_seq = head.source_lost_seq
     WHERE topic_id = p_topic_id;
END
$$;


--
-- Name: topic_spans(bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topic_spans(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM (SELECT * FROM topics_span
                    WHERE topic_id = p_topic_id AND last_seq >= p_first AND last_seq <= p_last ORDER BY last_seq) within
    UNION ALL
    SELECT * FROM (SELECT * FROM topics_span
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
    SELECT * INTO gone FROM topic_extent(p_head.topic_id, p_head.floor_seq + 1, cut, p_head.holes_seq);
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
    head  topics_topichead;
    upto  bigint;
    holes bigint;  -- no hole and no span is above this seq
    lost  bigint;  -- the last trimmed record: no reader lost the hole after it
BEGIN
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    upto := least(p_upto, head.head_seq);
    IF upto <= head.floor_seq THEN
        records := 0; bytes := 0;
        RETURN;
    END IF;
    holes := CASE WHEN topic_is_whole(head) THEN head.floor_seq ELSE head.holes_seq END;
    SELECT e.records, e.bytes INTO records, bytes FROM topic_extent(p_topic_id, head.floor_seq + 1, upto, holes) e;
    IF records = 0 THEN
        RETURN;
    END IF;
    IF p_why <> 'delete' THEN
        lost := CASE WHEN upto > holes THEN upto ELSE topic_last_live(p_topic_id, head.floor_seq, upto) END;
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
    PERFORM pg_advisory_xact_lock(7004);  -- several processes can find the crash at once: the first one repairs, the others wait
    IF EXISTS (SELECT FROM topics_survived) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7001);  -- and no router forwards missing records meanwhile
    FOR head IN
        SELECT * FROM topics_topichead
         WHERE holes_seq > floor_seq
           AND topic_id IN (SELECT topic_id FROM topics_topichead WHERE volatile_seq > floor_seq
                            UNION ALL
                            SELECT span.topic_id
                              FROM (SELECT topic_id AS id FROM topics_topichead WHERE volatile_seq > 0
                                    UNION ALL
                                    SELECT id FROM topics_deletedtopic) home
                              JOIN topics_span span ON span.home_id = home.id)
         ORDER BY topic_id FOR UPDATE
    LOOP
        SELECT count(*) INTO own FROM topics_record
         WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.holes_seq AND NOT deleted;
        SELECT coalesce(sum(last_seq - greatest(first_seq, head.floor_seq + 1) + 1), 0) INTO spans FROM topics_span
         WHERE topic_id = head.topic_id AND last_seq > head.floor_seq AND shown;
        changed := own + spans < head.count - (head.head_seq - head.holes_seq);
        IF changed THEN
            INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                                      keep_tag, path)
            SELECT head.topic_id, lower(gap), upper(gap) - 1, NULL, 0, 0,
                   coalesce(topic_next_ts(head.topic_id, upper(gap) - 1), head.last_ts), false, true, true, '{}'
              FROM (SELECT unnest(int8multirange(int8range(head.floor_seq, head.holes_seq, '(]')) - coalesce(range_agg(there), '{}')) AS gap
                      FROM (SELECT int8range(seq, seq, '[]') AS there FROM topics_record
                             WHERE topic_id = head.topic_id AND seq > head.floor_seq AND seq <= head.holes_seq
                            UNION ALL
                            SELECT int8range(first_seq, last_seq, '[]') FROM topics_span
                             WHERE topic_id = head.topic_id AND last_seq > head.floor_seq) entry) gaps;
        END IF;
        FOR piece IN
            SELECT last_seq, int8multirange(int8range(home_first_seq, home_last_seq, '[]')) - coalesce(present, '{}') AS gone
              FROM (SELECT span.* FROM topics_span span LEFT JOIN topics_topichead home ON home.topic_id = span.home_id
                     WHERE span.topic_id = head.topic_id AND last_seq > head.floor_seq AND shown
                       AND (home.topic_id IS NULL OR home.volatile_seq >= home_first_seq)) span
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
                SELECT records, bytes FROM topic_extent(head.topic_id, head.floor_seq + 1, head.head_seq, head.holes_seq))
             WHERE topic_id = head.topic_id;
            PERFORM topic_shrink(head.topic_id, head.floor_seq, 0, 0);
        END IF;
    END LOOP;
    PERFORM topics_skip_reserved();
    INSERT INTO topics_survived VALUES (true);
END
$$;


--
-- Name: topics_skip_reserved(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.topics_skip_reserved() RETURNS void
    LANGUAGE sql
    AS $$
    WITH behind AS (
        SELECT head.topic_id, head.head_seq, head.reserved_seq, head.last_ts
          FROM topics_topichead head JOIN topics_topic topic ON topic.id = head.topic_id
         WHERE head.reserved_seq > head.head_seq AND topic.durability <> 'fsync'),
    told AS (
        INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                                  keep_tag, path)
        SELECT topic_id, head_seq + 1, reserved_seq, NULL, 0, 0, last_ts, false, true, true, '{}' FROM behind),
    kept AS (
        INSERT INTO topics_crashloss (topic_id, first_seq, last_seq) SELECT topic_id, head_seq + 1, reserved_seq FROM behind)
    UPDATE topics_topichead head
       SET head_seq = head.reserved_seq, holes_seq = head.reserved_seq,
           -- A topic without live records has its floor at its head, and the floor has its losses.
           floor_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.floor_seq END,
           restart_lost_seq = CASE WHEN head.count = 0 THEN head.reserved_seq ELSE head.restart_lost_seq END
      FROM behind
     WHERE head.topic_id = behind.topic_id
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
-- Name: axes_accessattempt; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.axes_accessattempt (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    get_data text NOT NULL,
    post_data text NOT NULL,
    failures_since_start integer NOT NULL,
    CONSTRAINT axes_accessattempt_failures_since_start_check CHECK ((failures_since_start >= 0))
);


--
-- Name: axes_accessattempt_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.axes_accessattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: axes_accessattemptexpiration; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.axes_accessattemptexpiration (
    access_attempt_id integer NOT NULL,
    expires_at timestamp with time zone NOT NULL
);


--
-- Name: axes_accessfailurelog; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.axes_accessfailurelog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    locked_out boolean NOT NULL
);


--
-- Name: axes_accessfailurelog_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.axes_accessfailurelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessfailurelog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: axes_accesslog; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.axes_accesslog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    logout_time timestamp with time zone,
    session_hash character varying(64) NOT NULL
);


--
-- Name: axes_accesslog_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.axes_accesslog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accesslog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: console_count; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_count (
    name character varying(40) NOT NULL,
    value bigint NOT NULL
);


--
-- Name: console_failure; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_failure (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    task character varying(100) NOT NULL,
    arguments text NOT NULL,
    error text NOT NULL,
    trace text NOT NULL
);


--
-- Name: console_failure_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.console_failure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.console_failure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: console_layout; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_layout (
    key character varying(64) NOT NULL,
    layout text NOT NULL,
    used_ts bigint NOT NULL
);


--
-- Name: console_process; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_process (
    id character varying(80) NOT NULL,
    kind character varying(8) NOT NULL,
    host character varying(64) NOT NULL,
    pid integer NOT NULL,
    started_ts bigint NOT NULL,
    seen_ts bigint NOT NULL,
    worked_ts bigint
);


--
-- Name: console_sample; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_sample (
    kind character varying(6) NOT NULL,
    object_id bigint NOT NULL,
    ts bigint NOT NULL,
    head_seq bigint NOT NULL,
    reads bigint NOT NULL,
    forwarded bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    lag bigint NOT NULL,
    oldest_ms bigint NOT NULL,
    errors bigint NOT NULL
);


--
-- Name: console_task; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.console_task (
    name character varying(100) NOT NULL,
    runs bigint NOT NULL,
    failures bigint NOT NULL,
    total_ms bigint NOT NULL,
    last_ts bigint NOT NULL,
    last_ms bigint NOT NULL
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
-- Name: groups_group; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.groups_group (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    partition_by text NOT NULL,
    partitions integer NOT NULL,
    start text NOT NULL,
    created_ts bigint NOT NULL
);


--
-- Name: groups_group_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.groups_group ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.groups_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: groups_member; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.groups_member (
    id bigint NOT NULL,
    group_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    session_ms bigint NOT NULL,
    joined_ts bigint NOT NULL,
    seen_ts bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: groups_member_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.groups_member ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.groups_member_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: groups_share; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.groups_share (
    group_id bigint NOT NULL,
    share integer NOT NULL,
    seq bigint NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    member_id bigint,
    next_id bigint,
    turn bigint DEFAULT 0 NOT NULL,
    drain_seq bigint,
    updated_ts bigint NOT NULL
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: pipeline_delay; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_delay (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    router text NOT NULL COLLATE pg_catalog."C",
    minute_ts bigint NOT NULL,
    bucket integer NOT NULL,
    records bigint NOT NULL
);


--
-- Name: pipeline_delay_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_delay ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_delay_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_reading; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_reading (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL,
    upto_seq bigint
);


--
-- Name: pipeline_reading_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_reading ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_reading_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_rollup; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_rollup (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    minute_ts bigint NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    tag_prefix text NOT NULL COLLATE pg_catalog."C",
    records bigint NOT NULL,
    bytes bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL
);


--
-- Name: pipeline_rollup_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_rollup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_rollup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_run; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_run (
    id bigint NOT NULL,
    job character varying(8) NOT NULL,
    options jsonb NOT NULL,
    state character varying(8) NOT NULL,
    started_ts bigint NOT NULL,
    finished_ts bigint,
    read bigint NOT NULL,
    written bigint NOT NULL,
    summary text NOT NULL,
    report jsonb
);


--
-- Name: pipeline_run_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_run ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_schedule; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_schedule (
    id bigint NOT NULL,
    job character varying(8) NOT NULL,
    options jsonb NOT NULL,
    every_minutes integer NOT NULL,
    enabled boolean NOT NULL,
    next_ts bigint NOT NULL,
    last_run_id bigint,
    CONSTRAINT pipeline_schedule_every_minutes_check CHECK ((every_minutes >= 0))
);


--
-- Name: pipeline_schedule_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_schedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_staged; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_staged (
    id bigint NOT NULL,
    reading_id bigint NOT NULL,
    router text,
    minute_ts bigint NOT NULL,
    node text,
    tag_prefix text,
    bucket integer,
    records bigint NOT NULL,
    bytes bigint,
    first_seq bigint,
    last_seq bigint
);


--
-- Name: pipeline_staged_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_staged ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_staged_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: pipeline_written; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pipeline_written (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    writer character varying(255) NOT NULL COLLATE pg_catalog."C",
    partition integer NOT NULL,
    batch bigint NOT NULL,
    records bigint NOT NULL,
    ts bigint NOT NULL
);


--
-- Name: pipeline_written_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.pipeline_written ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_written_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: push_busclient; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.push_busclient (
    id bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    token character varying(128) COLLATE pg_catalog."C",
    created_ts bigint NOT NULL,
    deleted_ts bigint,
    token_sha256 bytea
);


--
-- Name: push_busclient_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.push_busclient ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_busclient_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: push_bustopic; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.push_bustopic (
    name character varying(32) NOT NULL COLLATE pg_catalog."C",
    created_ts bigint NOT NULL,
    publisher_id bigint
);


--
-- Name: push_counter; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.push_counter (
    id bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    tags character varying(255) NOT NULL COLLATE pg_catalog."C",
    total double precision NOT NULL,
    reported double precision NOT NULL
);


--
-- Name: push_counter_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.push_counter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_counter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: push_delivery; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.push_delivery (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    batch_id character varying(36) NOT NULL,
    attempt integer NOT NULL,
    status integer,
    error text,
    duration_ms double precision NOT NULL,
    events integer NOT NULL,
    bytes integer NOT NULL,
    subscriber_id bigint NOT NULL
);


--
-- Name: push_delivery_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.push_delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: push_subscriber; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.push_subscriber (
    client_id bigint NOT NULL,
    queue character varying(255) NOT NULL COLLATE pg_catalog."C",
    callback text NOT NULL,
    uuid text,
    timeout_ms integer NOT NULL,
    max_events integer NOT NULL,
    paused boolean NOT NULL,
    unsubscribed_ts bigint,
    created_ts bigint NOT NULL,
    health integer NOT NULL,
    retry_ts bigint NOT NULL,
    last_error text,
    last_delivery_ts bigint,
    sent_total bigint NOT NULL,
    dropped_total bigint NOT NULL,
    dropped bigint NOT NULL,
    lease bigint NOT NULL,
    leased_until_ts bigint NOT NULL,
    batch_id character varying(36),
    batch_first_seq bigint,
    batch_last_seq bigint,
    batch_attempts integer NOT NULL,
    batch_ts bigint NOT NULL,
    unreadable_total bigint DEFAULT 0 NOT NULL,
    passed_total bigint DEFAULT 0 NOT NULL
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
-- Name: push_queues; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.push_queues AS
 SELECT s.client_id,
    t.id AS queue_id,
    place.seq AS cursor_seq,
    h.head_seq,
    (COALESCE(extent.records, (0)::bigint) + COALESCE(coming.records, (0)::bigint)) AS records,
    COALESCE(extent.bytes, (0)::bigint) AS bytes,
    LEAST(public.topic_next_ts(t.id, place.seq), coming.ts) AS oldest_ts
   FROM (((((public.push_subscriber s
     LEFT JOIN public.topics_topic t ON (((t.name)::text = (s.queue)::text)))
     LEFT JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     LEFT JOIN LATERAL ( SELECT GREATEST(cursor.seq, h.floor_seq) AS seq
           FROM public.topics_cursor cursor
          WHERE ((cursor.topic_id = t.id) AND ((cursor.kind)::text = 'subscription'::text))) place ON (true))
     LEFT JOIN LATERAL public.topic_extent(t.id, (place.seq + 1), h.head_seq, h.holes_seq) extent(records, bytes) ON (true))
     LEFT JOIN LATERAL ( SELECT (sum((source.head_seq - cursor.seq)))::bigint AS records,
            min(public.topic_next_ts(r.source_id, GREATEST(cursor.seq, source.floor_seq))) AS ts
           FROM ((public.routers_router r
             JOIN public.topics_cursor cursor ON ((cursor.id = r.cursor_id)))
             JOIN public.topics_topichead source ON ((source.topic_id = r.source_id)))
          WHERE ((r.dest_id = t.id) AND (cursor.seq < source.head_seq))) coming ON (true));


--
-- Name: queues_lease; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queues_lease (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    durable boolean NOT NULL,
    node text COLLATE pg_catalog."C",
    id uuid,
    deadline bigint NOT NULL,
    deliveries integer NOT NULL
)
PARTITION BY LIST (durable);


--
-- Name: queues_lease_logged; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queues_lease_logged (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    durable boolean NOT NULL,
    node text COLLATE pg_catalog."C",
    id uuid,
    deadline bigint NOT NULL,
    deliveries integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000');


--
-- Name: queues_lease_unlogged; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.queues_lease_unlogged (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    durable boolean NOT NULL,
    node text COLLATE pg_catalog."C",
    id uuid,
    deadline bigint NOT NULL,
    deliveries integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000');


--
-- Name: queues_moved; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queues_moved (
    topic_id bigint NOT NULL,
    jobs bigint NOT NULL
);


--
-- Name: queues_queue_logged; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queues_queue_logged (
    topic_id bigint NOT NULL,
    durable boolean NOT NULL,
    next_seq bigint NOT NULL,
    floor_seq bigint NOT NULL,
    in_flight bigint NOT NULL,
    delayed bigint NOT NULL,
    low_ts bigint NOT NULL,
    swept_ts bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


--
-- Name: queues_queue_unlogged; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.queues_queue_unlogged (
    topic_id bigint NOT NULL,
    durable boolean NOT NULL,
    next_seq bigint NOT NULL,
    floor_seq bigint NOT NULL,
    in_flight bigint NOT NULL,
    delayed bigint NOT NULL,
    low_ts bigint NOT NULL,
    swept_ts bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');


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
-- Name: topic_cursors; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.topic_cursors AS
 SELECT topics_cursor.id,
    topics_cursor.topic_id,
    topics_cursor.kind,
    topics_cursor.name,
    topics_cursor.seq,
    topics_cursor.forwarded_total,
    topics_cursor.updated_ts
   FROM public.topics_cursor;


--
-- Name: topic_heads; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.topic_heads AS
 SELECT topics_topichead.topic_id,
    topics_topichead.head_seq,
    topics_topichead.floor_seq,
    topics_topichead.holes_seq,
    topics_topichead.recreated_seq,
    topics_topichead.reserved_seq,
    topics_topichead.count,
    topics_topichead.bytes,
    topics_topichead.total,
    topics_topichead.last_ts,
    topics_topichead.last_read_ts,
    topics_topichead.version,
    topics_topichead.routed,
    topics_topichead.derived
   FROM public.topics_topichead;


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
    revoked_ts bigint,
    expires_ts bigint,
    previous_sha256 bytea,
    previous_until_ts bigint,
    commit boolean DEFAULT false NOT NULL
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
-- Name: topics_auditentry; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_auditentry (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    actor character varying(100) NOT NULL,
    actor_name character varying(150) NOT NULL,
    origin character varying(64) NOT NULL,
    action character varying(8) NOT NULL,
    kind character varying(8) NOT NULL,
    name character varying(511) NOT NULL COLLATE pg_catalog."C",
    before jsonb,
    after jsonb
);


--
-- Name: topics_auditentry_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.topics_auditentry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_auditentry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: topics_clockstep; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_clockstep (
    topic_id bigint NOT NULL,
    upto_seq bigint NOT NULL,
    ts bigint NOT NULL,
    until_ts bigint NOT NULL
);


--
-- Name: topics_crashloss; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_crashloss (
    topic_id bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL
);


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
    topic_id bigint NOT NULL,
    digest bytea
);


--
-- Name: topics_lasthead; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.topics_lasthead (
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    head_seq bigint NOT NULL
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
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');


--
-- Name: topics_record_volatile; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.topics_record_volatile (
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
-- Name: queues_lease_logged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_lease ATTACH PARTITION public.queues_lease_logged FOR VALUES IN (true);


--
-- Name: queues_lease_unlogged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_lease ATTACH PARTITION public.queues_lease_unlogged FOR VALUES IN (false);


--
-- Name: queues_queue_logged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_queue ATTACH PARTITION public.queues_queue_logged FOR VALUES IN (true);


--
-- Name: queues_queue_unlogged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_queue ATTACH PARTITION public.queues_queue_unlogged FOR VALUES IN (false);


--
-- Name: topics_record_logged; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_logged FOR VALUES IN (false);


--
-- Name: topics_record_volatile; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_volatile FOR VALUES IN (true);


--
-- Data for Name: auth_group; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: auth_group_permissions; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: auth_permission; Type: TABLE DATA; Schema: public; Owner: -
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
INSERT INTO public.auth_permission VALUES (33, 'Can add access attempt', 9, 'add_accessattempt');
INSERT INTO public.auth_permission VALUES (34, 'Can change access attempt', 9, 'change_accessattempt');
INSERT INTO public.auth_permission VALUES (35, 'Can delete access attempt', 9, 'delete_accessattempt');
INSERT INTO public.auth_permission VALUES (36, 'Can view access attempt', 9, 'view_accessattempt');
INSERT INTO public.auth_permission VALUES (37, 'Can add access log', 10, 'add_accesslog');
INSERT INTO public.auth_permission VALUES (38, 'Can change access log', 10, 'change_accesslog');
INSERT INTO public.auth_permission VALUES (39, 'Can delete access log', 10, 'delete_accesslog');
INSERT INTO public.auth_permission VALUES (40, 'Can view access log', 10, 'view_accesslog');
INSERT INTO public.auth_permission VALUES (41, 'Can add access failure', 11, 'add_accessfailurelog');
INSERT INTO public.auth_permission VALUES (42, 'Can change access failure', 11, 'change_accessfailurelog');
INSERT INTO public.auth_permission VALUES (43, 'Can delete access failure', 11, 'delete_accessfailurelog');
INSERT INTO public.auth_permission VALUES (44, 'Can view access failure', 11, 'view_accessfailurelog');
INSERT INTO public.auth_permission VALUES (45, 'Can add access attempt expiration', 12, 'add_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (46, 'Can change access attempt expiration', 12, 'change_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (47, 'Can delete access attempt expiration', 12, 'delete_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (48, 'Can view access attempt expiration', 12, 'view_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (49, 'Can add record', 13, 'add_record');
INSERT INTO public.auth_permission VALUES (50, 'Can change record', 13, 'change_record');
INSERT INTO public.auth_permission VALUES (51, 'Can delete record', 13, 'delete_record');
INSERT INTO public.auth_permission VALUES (52, 'Can view record', 13, 'view_record');
INSERT INTO public.auth_permission VALUES (53, 'Can add API key', 14, 'add_apikey');
INSERT INTO public.auth_permission VALUES (54, 'Can change API key', 14, 'change_apikey');
INSERT INTO public.auth_permission VALUES (55, 'Can delete API key', 14, 'delete_apikey');
INSERT INTO public.auth_permission VALUES (56, 'Can view API key', 14, 'view_apikey');
INSERT INTO public.auth_permission VALUES (57, 'Can add topic', 15, 'add_topic');
INSERT INTO public.auth_permission VALUES (58, 'Can change topic', 15, 'change_topic');
INSERT INTO public.auth_permission VALUES (59, 'Can delete topic', 15, 'delete_topic');
INSERT INTO public.auth_permission VALUES (60, 'Can view topic', 15, 'view_topic');
INSERT INTO public.auth_permission VALUES (61, 'Can add crash loss', 16, 'add_crashloss');
INSERT INTO public.auth_permission VALUES (62, 'Can change crash loss', 16, 'change_crashloss');
INSERT INTO public.auth_permission VALUES (63, 'Can delete crash loss', 16, 'delete_crashloss');
INSERT INTO public.auth_permission VALUES (64, 'Can view crash loss', 16, 'view_crashloss');
INSERT INTO public.auth_permission VALUES (65, 'Can add deleted topic', 17, 'add_deletedtopic');
INSERT INTO public.auth_permission VALUES (66, 'Can change deleted topic', 17, 'change_deletedtopic');
INSERT INTO public.auth_permission VALUES (67, 'Can delete deleted topic', 17, 'delete_deletedtopic');
INSERT INTO public.auth_permission VALUES (68, 'Can view deleted topic', 17, 'view_deletedtopic');
INSERT INTO public.auth_permission VALUES (69, 'Can add last head', 18, 'add_lasthead');
INSERT INTO public.auth_permission VALUES (70, 'Can change last head', 18, 'change_lasthead');
INSERT INTO public.auth_permission VALUES (71, 'Can delete last head', 18, 'delete_lasthead');
INSERT INTO public.auth_permission VALUES (72, 'Can view last head', 18, 'view_lasthead');
INSERT INTO public.auth_permission VALUES (73, 'Can add reclaim', 19, 'add_reclaim');
INSERT INTO public.auth_permission VALUES (74, 'Can change reclaim', 19, 'change_reclaim');
INSERT INTO public.auth_permission VALUES (75, 'Can delete reclaim', 19, 'delete_reclaim');
INSERT INTO public.auth_permission VALUES (76, 'Can view reclaim', 19, 'view_reclaim');
INSERT INTO public.auth_permission VALUES (77, 'Can add stream count', 20, 'add_streamcount');
INSERT INTO public.auth_permission VALUES (78, 'Can change stream count', 20, 'change_streamcount');
INSERT INTO public.auth_permission VALUES (79, 'Can delete stream count', 20, 'delete_streamcount');
INSERT INTO public.auth_permission VALUES (80, 'Can view stream count', 20, 'view_streamcount');
INSERT INTO public.auth_permission VALUES (81, 'Can add watch session', 21, 'add_watchsession');
INSERT INTO public.auth_permission VALUES (82, 'Can change watch session', 21, 'change_watchsession');
INSERT INTO public.auth_permission VALUES (83, 'Can delete watch session', 21, 'delete_watchsession');
INSERT INTO public.auth_permission VALUES (84, 'Can view watch session', 21, 'view_watchsession');
INSERT INTO public.auth_permission VALUES (85, 'Can add audit entry', 22, 'add_auditentry');
INSERT INTO public.auth_permission VALUES (86, 'Can change audit entry', 22, 'change_auditentry');
INSERT INTO public.auth_permission VALUES (87, 'Can delete audit entry', 22, 'delete_auditentry');
INSERT INTO public.auth_permission VALUES (88, 'Can view audit entry', 22, 'view_auditentry');
INSERT INTO public.auth_permission VALUES (89, 'Can add clock step', 23, 'add_clockstep');
INSERT INTO public.auth_permission VALUES (90, 'Can change clock step', 23, 'change_clockstep');
INSERT INTO public.auth_permission VALUES (91, 'Can delete clock step', 23, 'delete_clockstep');
INSERT INTO public.auth_permission VALUES (92, 'Can view clock step', 23, 'view_clockstep');
INSERT INTO public.auth_permission VALUES (93, 'Can add topic head', 24, 'add_topichead');
INSERT INTO public.auth_permission VALUES (94, 'Can change topic head', 24, 'change_topichead');
INSERT INTO public.auth_permission VALUES (95, 'Can delete topic head', 24, 'delete_topichead');
INSERT INTO public.auth_permission VALUES (96, 'Can view topic head', 24, 'view_topichead');
INSERT INTO public.auth_permission VALUES (97, 'Can add span', 25, 'add_span');
INSERT INTO public.auth_permission VALUES (98, 'Can change span', 25, 'change_span');
INSERT INTO public.auth_permission VALUES (99, 'Can delete span', 25, 'delete_span');
INSERT INTO public.auth_permission VALUES (100, 'Can view span', 25, 'view_span');
INSERT INTO public.auth_permission VALUES (101, 'Can add cursor', 26, 'add_cursor');
INSERT INTO public.auth_permission VALUES (102, 'Can change cursor', 26, 'change_cursor');
INSERT INTO public.auth_permission VALUES (103, 'Can delete cursor', 26, 'delete_cursor');
INSERT INTO public.auth_permission VALUES (104, 'Can view cursor', 26, 'view_cursor');
INSERT INTO public.auth_permission VALUES (105, 'Can add idempotency key', 27, 'add_idempotencykey');
INSERT INTO public.auth_permission VALUES (106, 'Can change idempotency key', 27, 'change_idempotencykey');
INSERT INTO public.auth_permission VALUES (107, 'Can delete idempotency key', 27, 'delete_idempotencykey');
INSERT INTO public.auth_permission VALUES (108, 'Can view idempotency key', 27, 'view_idempotencykey');
INSERT INTO public.auth_permission VALUES (109, 'Can add router', 28, 'add_router');
INSERT INTO public.auth_permission VALUES (110, 'Can change router', 28, 'change_router');
INSERT INTO public.auth_permission VALUES (111, 'Can delete router', 28, 'delete_router');
INSERT INTO public.auth_permission VALUES (112, 'Can view router', 28, 'view_router');
INSERT INTO public.auth_permission VALUES (113, 'Can add delay', 29, 'add_delay');
INSERT INTO public.auth_permission VALUES (114, 'Can change delay', 29, 'change_delay');
INSERT INTO public.auth_permission VALUES (115, 'Can delete delay', 29, 'delete_delay');
INSERT INTO public.auth_permission VALUES (116, 'Can view delay', 29, 'view_delay');
INSERT INTO public.auth_permission VALUES (117, 'Can add reading', 30, 'add_reading');
INSERT INTO public.auth_permission VALUES (118, 'Can change reading', 30, 'change_reading');
INSERT INTO public.auth_permission VALUES (119, 'Can delete reading', 30, 'delete_reading');
INSERT INTO public.auth_permission VALUES (120, 'Can view reading', 30, 'view_reading');
INSERT INTO public.auth_permission VALUES (121, 'Can add rollup', 31, 'add_rollup');
INSERT INTO public.auth_permission VALUES (122, 'Can change rollup', 31, 'change_rollup');
INSERT INTO public.auth_permission VALUES (123, 'Can delete rollup', 31, 'delete_rollup');
INSERT INTO public.auth_permission VALUES (124, 'Can view rollup', 31, 'view_rollup');
INSERT INTO public.auth_permission VALUES (125, 'Can add run', 32, 'add_run');
INSERT INTO public.auth_permission VALUES (126, 'Can change run', 32, 'change_run');
INSERT INTO public.auth_permission VALUES (127, 'Can delete run', 32, 'delete_run');
INSERT INTO public.auth_permission VALUES (128, 'Can view run', 32, 'view_run');
INSERT INTO public.auth_permission VALUES (129, 'Can add schedule', 33, 'add_schedule');
INSERT INTO public.auth_permission VALUES (130, 'Can change schedule', 33, 'change_schedule');
INSERT INTO public.auth_permission VALUES (131, 'Can delete schedule', 33, 'delete_schedule');
INSERT INTO public.auth_permission VALUES (132, 'Can view schedule', 33, 'view_schedule');
INSERT INTO public.auth_permission VALUES (133, 'Can add staged', 34, 'add_staged');
INSERT INTO public.auth_permission VALUES (134, 'Can change staged', 34, 'change_staged');
INSERT INTO public.auth_permission VALUES (135, 'Can delete staged', 34, 'delete_staged');
INSERT INTO public.auth_permission VALUES (136, 'Can view staged', 34, 'view_staged');
INSERT INTO public.auth_permission VALUES (137, 'Can add written', 35, 'add_written');
INSERT INTO public.auth_permission VALUES (138, 'Can change written', 35, 'change_written');
INSERT INTO public.auth_permission VALUES (139, 'Can delete written', 35, 'delete_written');
INSERT INTO public.auth_permission VALUES (140, 'Can view written', 35, 'view_written');
INSERT INTO public.auth_permission VALUES (141, 'Can add bus client', 36, 'add_busclient');
INSERT INTO public.auth_permission VALUES (142, 'Can change bus client', 36, 'change_busclient');
INSERT INTO public.auth_permission VALUES (143, 'Can delete bus client', 36, 'delete_busclient');
INSERT INTO public.auth_permission VALUES (144, 'Can view bus client', 36, 'view_busclient');
INSERT INTO public.auth_permission VALUES (145, 'Can add subscriber', 37, 'add_subscriber');
INSERT INTO public.auth_permission VALUES (146, 'Can change subscriber', 37, 'change_subscriber');
INSERT INTO public.auth_permission VALUES (147, 'Can delete subscriber', 37, 'delete_subscriber');
INSERT INTO public.auth_permission VALUES (148, 'Can view subscriber', 37, 'view_subscriber');
INSERT INTO public.auth_permission VALUES (149, 'Can add bus topic', 38, 'add_bustopic');
INSERT INTO public.auth_permission VALUES (150, 'Can change bus topic', 38, 'change_bustopic');
INSERT INTO public.auth_permission VALUES (151, 'Can delete bus topic', 38, 'delete_bustopic');
INSERT INTO public.auth_permission VALUES (152, 'Can view bus topic', 38, 'view_bustopic');
INSERT INTO public.auth_permission VALUES (153, 'Can add counter', 39, 'add_counter');
INSERT INTO public.auth_permission VALUES (154, 'Can change counter', 39, 'change_counter');
INSERT INTO public.auth_permission VALUES (155, 'Can delete counter', 39, 'delete_counter');
INSERT INTO public.auth_permission VALUES (156, 'Can view counter', 39, 'view_counter');
INSERT INTO public.auth_permission VALUES (157, 'Can add delivery', 40, 'add_delivery');
INSERT INTO public.auth_permission VALUES (158, 'Can change delivery', 40, 'change_delivery');
INSERT INTO public.auth_permission VALUES (159, 'Can delete delivery', 40, 'delete_delivery');
INSERT INTO public.auth_permission VALUES (160, 'Can view delivery', 40, 'view_delivery');
INSERT INTO public.auth_permission VALUES (161, 'Can add count', 41, 'add_count');
INSERT INTO public.auth_permission VALUES (162, 'Can change count', 41, 'change_count');
INSERT INTO public.auth_permission VALUES (163, 'Can delete count', 41, 'delete_count');
INSERT INTO public.auth_permission VALUES (164, 'Can view count', 41, 'view_count');
INSERT INTO public.auth_permission VALUES (165, 'Can add layout', 42, 'add_layout');
INSERT INTO public.auth_permission VALUES (166, 'Can change layout', 42, 'change_layout');
INSERT INTO public.auth_permission VALUES (167, 'Can delete layout', 42, 'delete_layout');
INSERT INTO public.auth_permission VALUES (168, 'Can view layout', 42, 'view_layout');
INSERT INTO public.auth_permission VALUES (169, 'May rewind a router, or have it skip records', 42, 'move_router');
INSERT INTO public.auth_permission VALUES (170, 'May append a test record', 42, 'append_record');
INSERT INTO public.auth_permission VALUES (171, 'May download records', 42, 'export_records');
INSERT INTO public.auth_permission VALUES (172, 'Can add task', 43, 'add_task');
INSERT INTO public.auth_permission VALUES (173, 'Can change task', 43, 'change_task');
INSERT INTO public.auth_permission VALUES (174, 'Can delete task', 43, 'delete_task');
INSERT INTO public.auth_permission VALUES (175, 'Can view task', 43, 'view_task');
INSERT INTO public.auth_permission VALUES (176, 'Can add failure', 44, 'add_failure');
INSERT INTO public.auth_permission VALUES (177, 'Can change failure', 44, 'change_failure');
INSERT INTO public.auth_permission VALUES (178, 'Can delete failure', 44, 'delete_failure');
INSERT INTO public.auth_permission VALUES (179, 'Can view failure', 44, 'view_failure');
INSERT INTO public.auth_permission VALUES (180, 'Can add process', 45, 'add_process');
INSERT INTO public.auth_permission VALUES (181, 'Can change process', 45, 'change_process');
INSERT INTO public.auth_permission VALUES (182, 'Can delete process', 45, 'delete_process');
INSERT INTO public.auth_permission VALUES (183, 'Can view process', 45, 'view_process');
INSERT INTO public.auth_permission VALUES (184, 'Can add sample', 46, 'add_sample');
INSERT INTO public.auth_permission VALUES (185, 'Can change sample', 46, 'change_sample');
INSERT INTO public.auth_permission VALUES (186, 'Can delete sample', 46, 'delete_sample');
INSERT INTO public.auth_permission VALUES (187, 'Can view sample', 46, 'view_sample');


--
-- Data for Name: auth_user; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: auth_user_groups; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: auth_user_user_permissions; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: axes_accessattempt; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: axes_accessattemptexpiration; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: axes_accessfailurelog; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: axes_accesslog; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_count; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_failure; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_layout; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_process; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_sample; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: console_task; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: django_admin_log; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: django_content_type; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.django_content_type VALUES (1, 'admin', 'logentry');
INSERT INTO public.django_content_type VALUES (2, 'auth', 'permission');
INSERT INTO public.django_content_type VALUES (3, 'auth', 'group');
INSERT INTO public.django_content_type VALUES (4, 'auth', 'user');
INSERT INTO public.django_content_type VALUES (5, 'contenttypes', 'contenttype');
INSERT INTO public.django_content_type VALUES (6, 'sessions', 'session');
INSERT INTO public.django_content_type VALUES (7, 'django_eventstream', 'event');
INSERT INTO public.django_content_type VALUES (8, 'django_eventstream', 'eventcounter');
INSERT INTO public.django_content_type VALUES (9, 'axes', 'accessattempt');
INSERT INTO public.django_content_type VALUES (10, 'axes', 'accesslog');
INSERT INTO public.django_content_type VALUES (11, 'axes', 'accessfailurelog');
INSERT INTO public.django_content_type VALUES (12, 'axes', 'accessattemptexpiration');
INSERT INTO public.django_content_type VALUES (13, 'topics', 'record');
INSERT INTO public.django_content_type VALUES (14, 'topics', 'apikey');
INSERT INTO public.django_content_type VALUES (15, 'topics', 'topic');
INSERT INTO public.django_content_type VALUES (16, 'topics', 'crashloss');
INSERT INTO public.django_content_type VALUES (17, 'topics', 'deletedtopic');
INSERT INTO public.django_content_type VALUES (18, 'topics', 'lasthead');
INSERT INTO public.django_content_type VALUES (19, 'topics', 'reclaim');
INSERT INTO public.django_content_type VALUES (20, 'topics', 'streamcount');
INSERT INTO public.django_content_type VALUES (21, 'topics', 'watchsession');
INSERT INTO public.django_content_type VALUES (22, 'topics', 'auditentry');
INSERT INTO public.django_content_type VALUES (23, 'topics', 'clockstep');
INSERT INTO public.django_content_type VALUES (24, 'topics', 'topichead');
INSERT INTO public.django_content_type VALUES (25, 'topics', 'span');
INSERT INTO public.django_content_type VALUES (26, 'topics', 'cursor');
INSERT INTO public.django_content_type VALUES (27, 'topics', 'idempotencykey');
INSERT INTO public.django_content_type VALUES (28, 'routers', 'router');
INSERT INTO public.django_content_type VALUES (29, 'pipeline', 'delay');
INSERT INTO public.django_content_type VALUES (30, 'pipeline', 'reading');
INSERT INTO public.django_content_type VALUES (31, 'pipeline', 'rollup');
INSERT INTO public.django_content_type VALUES (32, 'pipeline', 'run');
INSERT INTO public.django_content_type VALUES (33, 'pipeline', 'schedule');
INSERT INTO public.django_content_type VALUES (34, 'pipeline', 'staged');
INSERT INTO public.django_content_type VALUES (35, 'pipeline', 'written');
INSERT INTO public.django_content_type VALUES (36, 'push', 'busclient');
INSERT INTO public.django_content_type VALUES (37, 'push', 'subscriber');
INSERT INTO public.django_content_type VALUES (38, 'push', 'bustopic');
INSERT INTO public.django_content_type VALUES (39, 'push', 'counter');
INSERT INTO public.django_content_type VALUES (40, 'push', 'delivery');
INSERT INTO public.django_content_type VALUES (41, 'console', 'count');
INSERT INTO public.django_content_type VALUES (42, 'console', 'layout');
INSERT INTO public.django_content_type VALUES (43, 'console', 'task');
INSERT INTO public.django_content_type VALUES (44, 'console', 'failure');
INSERT INTO public.django_content_type VALUES (45, 'console', 'process');
INSERT INTO public.django_content_type VALUES (46, 'console', 'sample');


--
-- Data for Name: django_eventstream_event; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: django_eventstream_eventcounter; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: django_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.django_migrations VALUES (1, 'contenttypes', '0001_initial', '2026-11-25 04:40:01.029513+00');
INSERT INTO public.django_migrations VALUES (2, 'auth', '0001_initial', '2026-11-25 04:40:01.052433+00');
INSERT INTO public.django_migrations VALUES (3, 'admin', '0001_initial', '2026-11-25 04:40:01.059632+00');
INSERT INTO public.django_migrations VALUES (4, 'admin', '0002_logentry_remove_auto_add', '2026-11-25 04:40:01.062657+00');
INSERT INTO public.django_migrations VALUES (5, 'admin', '0003_logentry_add_action_flag_choices', '2026-11-25 04:40:01.065367+00');
INSERT INTO public.django_migrations VALUES (6, 'contenttypes', '0002_remove_content_type_name', '2026-11-25 04:40:01.070779+00');
INSERT INTO public.django_migrations VALUES (7, 'auth', '0002_alter_permission_name_max_length', '2026-11-25 04:40:01.073687+00');
INSERT INTO public.django_migrations VALUES (8, 'auth', '0003_alter_user_email_max_length', '2026-11-25 04:40:01.076526+00');
INSERT INTO public.django_migrations VALUES (9, 'auth', '0004_alter_user_username_opts', '2026-11-25 04:40:01.079034+00');
INSERT INTO public.django_migrations VALUES (10, 'auth', '0005_alter_user_last_login_null', '2026-11-25 04:40:01.08185+00');
INSERT INTO public.django_migrations VALUES (11, 'auth', '0006_require_contenttypes_0002', '2026-11-25 04:40:01.082342+00');
INSERT INTO public.django_migrations VALUES (12, 'auth', '0007_alter_validators_add_error_messages', '2026-11-25 04:40:01.084832+00');
INSERT INTO public.django_migrations VALUES (13, 'auth', '0008_alter_user_username_max_length', '2026-11-25 04:40:01.088629+00');
INSERT INTO public.django_migrations VALUES (14, 'auth', '0009_alter_user_last_name_max_length', '2026-11-25 04:40:01.091558+00');
INSERT INTO public.django_migrations VALUES (15, 'auth', '0010_alter_group_name_max_length', '2026-11-25 04:40:01.094764+00');
INSERT INTO public.django_migrations VALUES (16, 'auth', '0011_update_proxy_permissions', '2026-11-25 04:40:01.097183+00');
INSERT INTO public.django_migrations VALUES (17, 'auth', '0012_alter_user_first_name_max_length', '2026-11-25 04:40:01.100016+00');
INSERT INTO public.django_migrations VALUES (18, 'axes', '0001_initial', '2026-11-25 04:40:01.105459+00');
INSERT INTO public.django_migrations VALUES (19, 'axes', '0002_auto_20151217_2044', '2026-11-25 04:40:01.115959+00');
INSERT INTO public.django_migrations VALUES (20, 'axes', '0003_auto_20160322_0929', '2026-11-25 04:40:01.120662+00');
INSERT INTO public.django_migrations VALUES (21, 'axes', '0004_auto_20181024_1538', '2026-11-25 04:40:01.124828+00');
INSERT INTO public.django_migrations VALUES (22, 'axes', '0005_remove_accessattempt_trusted', '2026-11-25 04:40:01.12615+00');
INSERT INTO public.django_migrations VALUES (23, 'axes', '0006_remove_accesslog_trusted', '2026-11-25 04:40:01.12836+00');
INSERT INTO public.django_migrations VALUES (24, 'axes', '0007_alter_accessattempt_unique_together', '2026-11-25 04:40:01.133857+00');
INSERT INTO public.django_migrations VALUES (25, 'axes', '0008_accessfailurelog', '2026-11-25 04:40:01.139485+00');
INSERT INTO public.django_migrations VALUES (26, 'axes', '0009_add_session_hash', '2026-11-25 04:40:01.140859+00');
INSERT INTO public.django_migrations VALUES (27, 'axes', '0010_accessattemptexpiration', '2026-11-25 04:40:01.143871+00');
INSERT INTO public.django_migrations VALUES (28, 'console', '0001_tables', '2026-11-25 04:40:01.165738+00');
INSERT INTO public.django_migrations VALUES (29, 'django_eventstream', '0001_initial', '2026-11-25 04:40:01.175616+00');
INSERT INTO public.django_migrations VALUES (30, 'topics', '0001_baseline', '2026-11-25 04:40:01.255169+00');
INSERT INTO public.django_migrations VALUES (31, 'groups', '0001_baseline', '2026-11-25 04:40:01.263042+00');
INSERT INTO public.django_migrations VALUES (32, 'routers', '0001_baseline', '2026-11-25 04:40:01.276901+00');
INSERT INTO public.django_migrations VALUES (33, 'push', '0001_baseline', '2026-11-25 04:40:01.300468+00');
INSERT INTO public.django_migrations VALUES (34, 'pipeline', '0001_baseline', '2026-11-25 04:40:01.324967+00');
INSERT INTO public.django_migrations VALUES (35, 'pipeline', '0002_objects', '2026-11-25 04:40:01.326073+00');
INSERT INTO public.django_migrations VALUES (36, 'queues', '0001_tables', '2026-11-25 04:40:01.341157+00');
INSERT INTO public.django_migrations VALUES (37, 'sessions', '0001_initial', '2026-11-25 04:40:01.345439+00');
INSERT INTO public.django_migrations VALUES (38, 'topics', '0002_objects', '2026-11-25 04:40:01.34917+00');
INSERT INTO public.django_migrations VALUES (39, 'topics', '0003_key_scope_commit', '2026-11-25 04:40:01.350831+00');


--
-- Data for Name: django_session; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: groups_group; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: groups_member; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: groups_share; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_delay; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_reading; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_rollup; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_run; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_schedule; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_staged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pipeline_written; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: push_busclient; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: push_bustopic; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: push_counter; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: push_delivery; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: push_subscriber; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: queues_lease_logged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: queues_lease_unlogged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: queues_moved; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: queues_queue_logged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: queues_queue_unlogged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: routers_router; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_apikey; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_auditentry; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_clockstep; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_crashloss; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_cursor; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_deletedtopic; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_idempotencykey; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_lasthead; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_reclaim; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_record_logged; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_record_volatile; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_span; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_streamcount; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_survived; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.topics_survived VALUES (true);


--
-- Data for Name: topics_topic; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_topichead; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: topics_watchsession; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: auth_group_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);


--
-- Name: auth_group_permissions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);


--
-- Name: auth_permission_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_permission_id_seq', 187, true);


--
-- Name: auth_user_groups_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);


--
-- Name: auth_user_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);


--
-- Name: auth_user_user_permissions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);


--
-- Name: axes_accessattempt_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.axes_accessattempt_id_seq', 1, false);


--
-- Name: axes_accessfailurelog_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.axes_accessfailurelog_id_seq', 1, false);


--
-- Name: axes_accesslog_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.axes_accesslog_id_seq', 1, false);


--
-- Name: console_failure_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.console_failure_id_seq', 1, false);


--
-- Name: django_admin_log_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.django_admin_log_id_seq', 1, false);


--
-- Name: django_content_type_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.django_content_type_id_seq', 46, true);


--
-- Name: django_eventstream_event_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.django_eventstream_event_id_seq', 1, false);


--
-- Name: django_eventstream_eventcounter_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.django_eventstream_eventcounter_id_seq', 1, false);


--
-- Name: django_migrations_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.django_migrations_id_seq', 39, true);


--
-- Name: groups_group_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.groups_group_id_seq', 1, false);


--
-- Name: groups_member_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.groups_member_id_seq', 1, false);


--
-- Name: pipeline_delay_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_delay_id_seq', 1, false);


--
-- Name: pipeline_reading_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_reading_id_seq', 1, false);


--
-- Name: pipeline_rollup_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_rollup_id_seq', 1, false);


--
-- Name: pipeline_run_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_run_id_seq', 1, false);


--
-- Name: pipeline_schedule_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_schedule_id_seq', 1, false);


--
-- Name: pipeline_staged_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_staged_id_seq', 1, false);


--
-- Name: pipeline_written_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.pipeline_written_id_seq', 1, false);


--
-- Name: push_busclient_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.push_busclient_id_seq', 1, false);


--
-- Name: push_counter_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.push_counter_id_seq', 1, false);


--
-- Name: push_delivery_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.push_delivery_id_seq', 1, false);


--
-- Name: routers_router_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.routers_router_id_seq', 1, false);


--
-- Name: topics_apikey_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.topics_apikey_id_seq', 1, false);


--
-- Name: topics_auditentry_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.topics_auditentry_id_seq', 1, false);


--
-- Name: topics_cursor_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.topics_cursor_id_seq', 1, false);


--
-- Name: topics_topic_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.topics_topic_id_seq', 1, false);


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
-- Name: axes_accessattempt axes_accessattempt_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_pkey PRIMARY KEY (id);


--
-- Name: axes_accessattempt axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq UNIQUE (username, ip_address, user_agent);


--
-- Name: axes_accessattemptexpiration axes_accessattemptexpiration_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptexpiration_pkey PRIMARY KEY (access_attempt_id);


--
-- Name: axes_accessfailurelog axes_accessfailurelog_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accessfailurelog
    ADD CONSTRAINT axes_accessfailurelog_pkey PRIMARY KEY (id);


--
-- Name: axes_accesslog axes_accesslog_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accesslog
    ADD CONSTRAINT axes_accesslog_pkey PRIMARY KEY (id);


--
-- Name: console_count console_count_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_count
    ADD CONSTRAINT console_count_pkey PRIMARY KEY (name);


--
-- Name: console_failure console_failure_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_failure
    ADD CONSTRAINT console_failure_pkey PRIMARY KEY (id);


--
-- Name: console_layout console_layout_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_layout
    ADD CONSTRAINT console_layout_pkey PRIMARY KEY (key);


--
-- Name: console_process console_process_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_process
    ADD CONSTRAINT console_process_pkey PRIMARY KEY (id);


--
-- Name: console_sample console_sample_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_sample
    ADD CONSTRAINT console_sample_pkey PRIMARY KEY (kind, object_id, ts);


--
-- Name: console_task console_task_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.console_task
    ADD CONSTRAINT console_task_pkey PRIMARY KEY (name);


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
-- Name: groups_group groups_group_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_group
    ADD CONSTRAINT groups_group_pkey PRIMARY KEY (id);


--
-- Name: groups_group groups_group_topic_id_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_group
    ADD CONSTRAINT groups_group_topic_id_name_key UNIQUE (topic_id, name);


--
-- Name: groups_member groups_member_group_id_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_member
    ADD CONSTRAINT groups_member_group_id_name_key UNIQUE (group_id, name);


--
-- Name: groups_member groups_member_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_member
    ADD CONSTRAINT groups_member_pkey PRIMARY KEY (id);


--
-- Name: groups_share groups_share_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_share
    ADD CONSTRAINT groups_share_pkey PRIMARY KEY (group_id, share);


--
-- Name: pipeline_delay pipeline_delay_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_delay
    ADD CONSTRAINT pipeline_delay_key UNIQUE (router, topic_id, minute_ts, bucket);


--
-- Name: pipeline_delay pipeline_delay_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_delay
    ADD CONSTRAINT pipeline_delay_pkey PRIMARY KEY (id);


--
-- Name: pipeline_reading pipeline_reading_of_topic; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_reading
    ADD CONSTRAINT pipeline_reading_of_topic UNIQUE (topic_id, name);


--
-- Name: pipeline_reading pipeline_reading_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_reading
    ADD CONSTRAINT pipeline_reading_pkey PRIMARY KEY (id);


--
-- Name: pipeline_rollup pipeline_rollup_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_rollup
    ADD CONSTRAINT pipeline_rollup_key UNIQUE (topic_id, minute_ts, node, tag_prefix);


--
-- Name: pipeline_rollup pipeline_rollup_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_rollup
    ADD CONSTRAINT pipeline_rollup_pkey PRIMARY KEY (id);


--
-- Name: pipeline_run pipeline_run_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_run
    ADD CONSTRAINT pipeline_run_pkey PRIMARY KEY (id);


--
-- Name: pipeline_schedule pipeline_schedule_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_schedule
    ADD CONSTRAINT pipeline_schedule_pkey PRIMARY KEY (id);


--
-- Name: pipeline_staged pipeline_staged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_staged
    ADD CONSTRAINT pipeline_staged_pkey PRIMARY KEY (id);


--
-- Name: pipeline_written pipeline_written_by_partition; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_written
    ADD CONSTRAINT pipeline_written_by_partition UNIQUE (topic_id, writer, partition);


--
-- Name: pipeline_written pipeline_written_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_written
    ADD CONSTRAINT pipeline_written_pkey PRIMARY KEY (id);


--
-- Name: push_busclient push_busclient_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_busclient
    ADD CONSTRAINT push_busclient_pkey PRIMARY KEY (id);


--
-- Name: push_busclient push_busclient_token_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_busclient
    ADD CONSTRAINT push_busclient_token_key UNIQUE (token);


--
-- Name: push_bustopic push_bustopic_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_bustopic
    ADD CONSTRAINT push_bustopic_pkey PRIMARY KEY (name);


--
-- Name: push_counter push_counter_name; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_counter
    ADD CONSTRAINT push_counter_name UNIQUE (name, tags);


--
-- Name: push_counter push_counter_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_counter
    ADD CONSTRAINT push_counter_pkey PRIMARY KEY (id);


--
-- Name: push_delivery push_delivery_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_delivery
    ADD CONSTRAINT push_delivery_pkey PRIMARY KEY (id);


--
-- Name: push_subscriber push_subscriber_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_pkey PRIMARY KEY (client_id);


--
-- Name: push_subscriber push_subscriber_queue_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_queue_key UNIQUE (queue);


--
-- Name: queues_lease queues_lease_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_lease
    ADD CONSTRAINT queues_lease_pkey PRIMARY KEY (topic_id, seq, durable);


--
-- Name: queues_lease_logged queues_lease_logged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_lease_logged
    ADD CONSTRAINT queues_lease_logged_pkey PRIMARY KEY (topic_id, seq, durable);


--
-- Name: queues_lease_unlogged queues_lease_unlogged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_lease_unlogged
    ADD CONSTRAINT queues_lease_unlogged_pkey PRIMARY KEY (topic_id, seq, durable);


--
-- Name: queues_moved queues_moved_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_moved
    ADD CONSTRAINT queues_moved_pkey PRIMARY KEY (topic_id);


--
-- Name: queues_queue queues_queue_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_queue
    ADD CONSTRAINT queues_queue_pkey PRIMARY KEY (topic_id, durable);


--
-- Name: queues_queue_logged queues_queue_logged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_queue_logged
    ADD CONSTRAINT queues_queue_logged_pkey PRIMARY KEY (topic_id, durable);


--
-- Name: queues_queue_unlogged queues_queue_unlogged_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queues_queue_unlogged
    ADD CONSTRAINT queues_queue_unlogged_pkey PRIMARY KEY (topic_id, durable);


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
-- Name: topics_apikey topics_apikey_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_pkey PRIMARY KEY (id);


--
-- Name: topics_apikey topics_apikey_previous_sha256_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_previous_sha256_key UNIQUE (previous_sha256);


--
-- Name: topics_apikey topics_apikey_secret_sha256_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_secret_sha256_key UNIQUE (secret_sha256);


--
-- Name: topics_auditentry topics_auditentry_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_auditentry
    ADD CONSTRAINT topics_auditentry_pkey PRIMARY KEY (id);


--
-- Name: topics_clockstep topics_clockstep_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_clockstep
    ADD CONSTRAINT topics_clockstep_pkey PRIMARY KEY (topic_id);


--
-- Name: topics_crashloss topics_crashloss_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_crashloss
    ADD CONSTRAINT topics_crashloss_pkey PRIMARY KEY (topic_id, last_seq);


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
-- Name: topics_lasthead topics_lasthead_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_lasthead
    ADD CONSTRAINT topics_lasthead_pkey PRIMARY KEY (name);


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
-- Name: topics_span topics_span_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_span
    ADD CONSTRAINT topics_span_pkey PRIMARY KEY (topic_id, last_seq);


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
-- Name: axes_accessattempt_ip_address_10922d9c; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessattempt_ip_address_10922d9c ON public.axes_accessattempt USING btree (ip_address);


--
-- Name: axes_accessattempt_user_agent_ad89678b; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessattempt_user_agent_ad89678b ON public.axes_accessattempt USING btree (user_agent);


--
-- Name: axes_accessattempt_user_agent_ad89678b_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessattempt_user_agent_ad89678b_like ON public.axes_accessattempt USING btree (user_agent varchar_pattern_ops);


--
-- Name: axes_accessattempt_username_3f2d4ca0; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessattempt_username_3f2d4ca0 ON public.axes_accessattempt USING btree (username);


--
-- Name: axes_accessattempt_username_3f2d4ca0_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessattempt_username_3f2d4ca0_like ON public.axes_accessattempt USING btree (username varchar_pattern_ops);


--
-- Name: axes_accessfailurelog_ip_address_2e9f5a7f; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessfailurelog_ip_address_2e9f5a7f ON public.axes_accessfailurelog USING btree (ip_address);


--
-- Name: axes_accessfailurelog_user_agent_ea145dda; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessfailurelog_user_agent_ea145dda ON public.axes_accessfailurelog USING btree (user_agent);


--
-- Name: axes_accessfailurelog_user_agent_ea145dda_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessfailurelog_user_agent_ea145dda_like ON public.axes_accessfailurelog USING btree (user_agent varchar_pattern_ops);


--
-- Name: axes_accessfailurelog_username_a8b7e8a4; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessfailurelog_username_a8b7e8a4 ON public.axes_accessfailurelog USING btree (username);


--
-- Name: axes_accessfailurelog_username_a8b7e8a4_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accessfailurelog_username_a8b7e8a4_like ON public.axes_accessfailurelog USING btree (username varchar_pattern_ops);


--
-- Name: axes_accesslog_ip_address_86b417e5; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accesslog_ip_address_86b417e5 ON public.axes_accesslog USING btree (ip_address);


--
-- Name: axes_accesslog_user_agent_0e659004; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accesslog_user_agent_0e659004 ON public.axes_accesslog USING btree (user_agent);


--
-- Name: axes_accesslog_user_agent_0e659004_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accesslog_user_agent_0e659004_like ON public.axes_accesslog USING btree (user_agent varchar_pattern_ops);


--
-- Name: axes_accesslog_username_df93064b; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accesslog_username_df93064b ON public.axes_accesslog USING btree (username);


--
-- Name: axes_accesslog_username_df93064b_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX axes_accesslog_username_df93064b_like ON public.axes_accesslog USING btree (username varchar_pattern_ops);


--
-- Name: console_count_name_ea72e9e3_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_count_name_ea72e9e3_like ON public.console_count USING btree (name varchar_pattern_ops);


--
-- Name: console_failure_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_failure_by_age ON public.console_failure USING btree (ts);


--
-- Name: console_layout_key_7964cd2d_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_layout_key_7964cd2d_like ON public.console_layout USING btree (key varchar_pattern_ops);


--
-- Name: console_process_by_kind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_process_by_kind ON public.console_process USING btree (kind, seen_ts);


--
-- Name: console_process_id_1a9a0e1b_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_process_id_1a9a0e1b_like ON public.console_process USING btree (id varchar_pattern_ops);


--
-- Name: console_sample_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_sample_by_age ON public.console_sample USING btree (ts);


--
-- Name: console_task_name_40fa919d_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX console_task_name_40fa919d_like ON public.console_task USING btree (name varchar_pattern_ops);


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
-- Name: pipeline_run_by_start; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX pipeline_run_by_start ON public.pipeline_run USING btree (started_ts DESC);


--
-- Name: pipeline_schedule_last_run_id_3a6c1115; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX pipeline_schedule_last_run_id_3a6c1115 ON public.pipeline_schedule USING btree (last_run_id);


--
-- Name: pipeline_staged_by_reading; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX pipeline_staged_by_reading ON public.pipeline_staged USING btree (reading_id);


--
-- Name: push_busclient_token_fabb25d9_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_busclient_token_fabb25d9_like ON public.push_busclient USING btree (token varchar_pattern_ops);


--
-- Name: push_bustopic_name_e04f5fae_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_bustopic_name_e04f5fae_like ON public.push_bustopic USING btree (name varchar_pattern_ops);


--
-- Name: push_bustopic_publisher_id_2d2e90f7; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_bustopic_publisher_id_2d2e90f7 ON public.push_bustopic USING btree (publisher_id);


--
-- Name: push_delivery_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_delivery_by_age ON public.push_delivery USING btree (ts);


--
-- Name: push_delivery_of_subscriber; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_delivery_of_subscriber ON public.push_delivery USING btree (subscriber_id, id);


--
-- Name: push_subscriber_queue_ddd58958_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX push_subscriber_queue_ddd58958_like ON public.push_subscriber USING btree (queue varchar_pattern_ops);


--
-- Name: queues_lease_by_deadline; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queues_lease_by_deadline ON ONLY public.queues_lease USING btree (topic_id, deadline, seq);


--
-- Name: queues_lease_logged_topic_id_deadline_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queues_lease_logged_topic_id_deadline_seq_idx ON public.queues_lease_logged USING btree (topic_id, deadline, seq);


--
-- Name: queues_lease_unlogged_topic_id_deadline_seq_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queues_lease_unlogged_topic_id_deadline_seq_idx ON public.queues_lease_unlogged USING btree (topic_id, deadline, seq);


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
-- Name: topics_audit_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_audit_by_age ON public.topics_auditentry USING btree (ts);


--
-- Name: topics_audit_by_name; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_audit_by_name ON public.topics_auditentry USING btree (name);


--
-- Name: topics_idempotency_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_idempotency_by_age ON public.topics_idempotencykey USING btree (ts);


--
-- Name: topics_lasthead_name_531f3780_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_lasthead_name_531f3780_like ON public.topics_lasthead USING btree (name varchar_pattern_ops);


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
-- Name: topics_span_by_home; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_span_by_home ON public.topics_span USING btree (home_id, home_last_seq);


--
-- Name: topics_span_by_home_in_topic; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_span_by_home_in_topic ON public.topics_span USING btree (home_id, topic_id, home_last_seq);


--
-- Name: topics_span_by_stamp; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_span_by_stamp ON public.topics_span USING btree (topic_id, stamp_router, stamp_source_id, (((stamp_first_seq + last_seq) - first_seq))) WHERE (stamp_router IS NOT NULL);


--
-- Name: topics_span_long; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_span_long ON public.topics_span USING btree (home_id, home_last_seq) WHERE ((home_last_seq - home_first_seq) >= 1000);


--
-- Name: topics_span_lost; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_span_lost ON public.topics_span USING btree (topic_id, last_seq) WHERE (home_id IS NULL);


--
-- Name: topics_topic_name_6bb046c1_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_topic_name_6bb046c1_like ON public.topics_topic USING btree (name varchar_pattern_ops);


--
-- Name: topics_watchsession_wid_a14954e2_like; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX topics_watchsession_wid_a14954e2_like ON public.topics_watchsession USING btree (wid varchar_pattern_ops);


--
-- Name: queues_lease_logged_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_lease_pkey ATTACH PARTITION public.queues_lease_logged_pkey;


--
-- Name: queues_lease_logged_topic_id_deadline_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_lease_by_deadline ATTACH PARTITION public.queues_lease_logged_topic_id_deadline_seq_idx;


--
-- Name: queues_lease_unlogged_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_lease_pkey ATTACH PARTITION public.queues_lease_unlogged_pkey;


--
-- Name: queues_lease_unlogged_topic_id_deadline_seq_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_lease_by_deadline ATTACH PARTITION public.queues_lease_unlogged_topic_id_deadline_seq_idx;


--
-- Name: queues_queue_logged_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_queue_pkey ATTACH PARTITION public.queues_queue_logged_pkey;


--
-- Name: queues_queue_unlogged_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.queues_queue_pkey ATTACH PARTITION public.queues_queue_unlogged_pkey;


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
-- Name: axes_accessattemptexpiration axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce FOREIGN KEY (access_attempt_id) REFERENCES public.axes_accessattempt(id) DEFERRABLE INITIALLY DEFERRED;


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
-- Name: groups_group groups_group_topic_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_group
    ADD CONSTRAINT groups_group_topic_id_fkey FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) ON DELETE CASCADE;


--
-- Name: groups_member groups_member_group_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_member
    ADD CONSTRAINT groups_member_group_id_fkey FOREIGN KEY (group_id) REFERENCES public.groups_group(id) ON DELETE CASCADE;


--
-- Name: groups_share groups_share_group_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.groups_share
    ADD CONSTRAINT groups_share_group_id_fkey FOREIGN KEY (group_id) REFERENCES public.groups_group(id) ON DELETE CASCADE;


--
-- Name: pipeline_schedule pipeline_schedule_last_run_id_3a6c1115_fk_pipeline_run_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pipeline_schedule
    ADD CONSTRAINT pipeline_schedule_last_run_id_3a6c1115_fk_pipeline_run_id FOREIGN KEY (last_run_id) REFERENCES public.pipeline_run(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: push_bustopic push_bustopic_publisher_id_2d2e90f7_fk_push_busclient_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_bustopic
    ADD CONSTRAINT push_bustopic_publisher_id_2d2e90f7_fk_push_busclient_id FOREIGN KEY (publisher_id) REFERENCES public.push_busclient(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: push_delivery push_delivery_subscriber_id_c8212fd1_fk_push_subs; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_delivery
    ADD CONSTRAINT push_delivery_subscriber_id_c8212fd1_fk_push_subs FOREIGN KEY (subscriber_id) REFERENCES public.push_subscriber(client_id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: push_subscriber push_subscriber_client_id_2640c7bc_fk_push_busclient_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_client_id_2640c7bc_fk_push_busclient_id FOREIGN KEY (client_id) REFERENCES public.push_busclient(id) DEFERRABLE INITIALLY DEFERRED;


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
-- Name: topics_clockstep topics_clockstep_topic_id_76f96ac7_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_clockstep
    ADD CONSTRAINT topics_clockstep_topic_id_76f96ac7_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: topics_cursor topics_cursor_topic_id_90c370d6_fk_topics_topic_id; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_topic_id_90c370d6_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;


--
-- Name: FUNCTION pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json); Type: ACL; Schema: public; Owner: -
--

REVOKE ALL ON FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) TO topics_writer;


--
-- Name: FUNCTION pipeline_create(p_topic text, p_now_ms bigint); Type: ACL; Schema: public; Owner: -
--

REVOKE ALL ON FUNCTION public.pipeline_create(p_topic text, p_now_ms bigint) FROM PUBLIC;


--
-- Name: FUNCTION pipeline_follow(p_topic text, p_cursor text, p_seq bigint); Type: ACL; Schema: public; Owner: -
--

REVOKE ALL ON FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) TO topics_writer;


--
-- Name: TABLE topics_topichead; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_topichead TO topics_analyst;


--
-- Name: COLUMN topics_topichead.bytes; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT(bytes) ON TABLE public.topics_topichead TO topics_writer;


--
-- Name: TABLE routers_router; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.routers_router TO topics_analyst;


--
-- Name: TABLE topics_span; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_span TO topics_analyst;


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
GRANT SELECT ON TABLE public.topics_topic TO topics_writer;


--
-- Name: TABLE topic_log; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topic_log TO topics_analyst;


--
-- Name: TABLE pipeline_written; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.pipeline_written TO topics_writer;


--
-- Name: TABLE topics_cursor; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_cursor TO topics_analyst;


--
-- Name: TABLE topic_cursors; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topic_cursors TO topics_analyst;


--
-- Name: TABLE topic_heads; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topic_heads TO topics_analyst;


--
-- Name: TABLE topics_clockstep; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_clockstep TO topics_analyst;


--
-- Name: TABLE topics_crashloss; Type: ACL; Schema: public; Owner: -
--

GRANT SELECT ON TABLE public.topics_crashloss TO topics_analyst;


--
-- PostgreSQL database dump complete
--


