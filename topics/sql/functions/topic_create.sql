-- Creates a topic with the config of any new topic, unless a topic has the name. The name's number continues, as after every delete.
-- If two sessions create the topic at once, the second waits for the first, and inserts nothing.
CREATE OR REPLACE FUNCTION topic_create(p_name text, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    new_id    bigint;
    last_head bigint;
BEGIN
    INSERT INTO topics_topic (
        name, created_ts, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create, idempotency_window_ms,
        dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable, sealed)
    VALUES (p_name, p_now, 'log', 0, 0, 0, 'old', 'disk', true, true, 120000, true, 30000, 0, 0, false, false)
    ON CONFLICT (name) DO NOTHING RETURNING id INTO new_id;
    IF new_id IS NOT NULL THEN
        last_head := topic_last_head(p_name);
        INSERT INTO topics_topichead (
            topic_id, head_seq, era, floor_seq, reserved_seq, recreated_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq,
            holes_seq, count, bytes, total, last_ts, last_read_ts, version, volatile_seq, routed, derived, keeps_evidence)
        VALUES (new_id, last_head, topic_era(last_head), last_head, last_head, last_head, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, false, false, false);
    END IF;
END
$$;
