-- Starts a session of a member, and shares the group anew. Returns the session.
--
-- A second stream under the same name replaces the first. Its shares get another generation, because two clients may have the
-- name. They start again at their cursors, so a share that was to move can move at once.
CREATE OR REPLACE FUNCTION groups_join(p_group_id bigint, p_name text, p_session_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
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
