-- Stores the result of router_forward: the cursor, or why it did not advance, how long the router pauses, and how many bytes
-- must fit into the dest to end the pause sooner (NULL: the error is another one). The caller holds the router's cursor.
CREATE OR REPLACE FUNCTION router_moved(
    p_router_id bigint, p_cursor_id bigint, p_forwarded bigint, p_cursor_seq bigint, p_blocked text, p_rejected bigint, p_now bigint
) RETURNS void
LANGUAGE sql AS $$
    UPDATE topics_cursor SET seq = p_cursor_seq, forwarded_total = forwarded_total + p_forwarded, updated_ts = p_now
     WHERE id = p_cursor_id AND seq < p_cursor_seq;
    UPDATE routers_router
       SET state = 'blocked', last_error = p_blocked, errors_total = errors_total + 1, retry_bytes = p_rejected,
           retry_ms = least(greatest(retry_ms * 2, 100), 5000), retry_ts = p_now + least(greatest(retry_ms * 2, 100), 5000)
     WHERE id = p_router_id AND p_blocked IS NOT NULL;
    UPDATE routers_router SET state = 'running', last_error = NULL, retry_bytes = NULL, retry_ms = 0, retry_ts = 0
     WHERE id = p_router_id AND p_blocked IS NULL AND state = 'blocked'
$$;
