-- Locks the head of a topic for expiry. Returns false if another transaction keeps it. Returns true for a deleted topic, which has no
-- head, because its row of topics_expiry must go. It waits at most 100 ms, because other topics wait for their turn, and an
-- application can hold the head in a transaction. SKIP LOCKED would never find a busy topic free. PostgreSQL does not log an error
-- that is caught, as in reclaim_lock.
CREATE OR REPLACE FUNCTION expire_lock(p_topic_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '100ms', true);
    PERFORM FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1 FOR UPDATE;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;
