-- Moves jobs that queue_claim set aside to the dead letter topic of the queue, as queues/dead.py does, and creates this topic if it is
-- absent. If the topic takes no records, the jobs stay in the queue, and a claim tries again after a minute.
CREATE OR REPLACE FUNCTION door_bury(queue topics_topic, p_version bigint, p_expired bigint, p_now bigint, p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    dest    topics_topic;
    head    topics_topichead;
    letters record;
    done    record;
BEGIN
    SELECT count(*) AS count, array_agg(seq) AS seqs, json_agg(data::json ORDER BY seq) AS data, json_agg(tag ORDER BY seq) AS tags,
           json_agg(node ORDER BY seq) AS nodes,
           json_agg((SELECT json_unshield(('{' || string_agg(to_json(key) || ':' || value, ',') || '}')::json, min(mark))
                       FROM (SELECT key, value::text, NULL AS mark
                               FROM (VALUES ('$dead_letter_from', to_json(queue.name)), ('$dead_letter_deliveries', to_json(deliveries)),
                                            ('$dead_letter_src_seq', to_json(seq)), ('$dead_letter_error', to_json(error))) stamp (key, value)
                              WHERE value IS NOT NULL
                              UNION ALL
                             SELECT key, value::text, mark FROM json_shield(coalesce(meta, '{}')), json_each(shielded)
                              WHERE meta_owner(key) IS DISTINCT FROM 'queues') field)
                    ORDER BY seq) AS metas
      INTO letters
      FROM queue_spent(queue.id, p_version, queue.leases_durable, NULL, p_expired, p_seqs);
    IF letters.count = 0 THEN
        RETURN;
    END IF;
    LOOP
        SELECT * INTO dest FROM topics_topic WHERE name = queue.dead_letter;
        EXIT WHEN FOUND;
        PERFORM topic_create(queue.dead_letter, p_now);
    END LOOP;
    -- The delete of the jobs and the append both lock a head, in the order of ids.
    PERFORM FROM (SELECT unnest(ARRAY[least(queue.id, dest.id), greatest(queue.id, dest.id)]) AS id) wanted
      CROSS JOIN LATERAL (SELECT FROM topics_topichead WHERE topic_id = wanted.id LIMIT 1 FOR UPDATE) locked;
    SELECT * INTO dest FROM topics_topic WHERE id = dest.id;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = dest.id LIMIT 1;
    IF dest.id IS NULL OR head.topic_id IS NULL OR dest.unique_tags THEN
        RETURN;
    END IF;
    SELECT * INTO done FROM topic_append(dest, head, p_now, letters.data, letters.tags, letters.nodes, letters.metas);
    IF done.verdict = 'done' THEN
        PERFORM queue_drop(queue.id, p_version, queue.leases_durable, NULL, p_expired, letters.seqs);
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
