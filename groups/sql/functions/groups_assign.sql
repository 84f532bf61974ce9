-- Ends the sessions of a group that timed out, and shares the group evenly among its members.
--
-- The result depends only on the rows. Each member keeps as many of its shares as its quota allows, the lowest numbers first. The
-- other shares go to the members with room. A share without an owner gets its new owner at once. A share with an owner gets
-- next_id, and moves when its owner is done (groups_settle).
--
-- Every writer of a group takes its locks in this order: the group, its members by id, its shares by number. So assignments of
-- one group run one after another, and none deadlocks with a commit.
CREATE OR REPLACE FUNCTION groups_assign(p_group_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint;
BEGIN
    PERFORM FROM groups_group WHERE id = p_group_id FOR NO KEY UPDATE;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;  -- after the wait for the lock
    PERFORM FROM groups_member WHERE group_id = p_group_id AND seen_ts + session_ms < now_ms ORDER BY id FOR UPDATE;
    DELETE FROM groups_member WHERE group_id = p_group_id AND seen_ts + session_ms < now_ms;
    PERFORM FROM groups_share WHERE group_id = p_group_id ORDER BY share FOR NO KEY UPDATE;

    WITH members AS MATERIALIZED (  -- otherwise PostgreSQL could look up two members for each share
        SELECT id FROM groups_member WHERE group_id = p_group_id),
    held AS (
        SELECT s.share, owner.id AS owner_id, coalesce(heir.id, owner.id) AS holder_id
          FROM groups_share s
          LEFT JOIN members owner ON owner.id = s.member_id
          LEFT JOIN members heir ON heir.id = s.next_id
         WHERE s.group_id = p_group_id),
    sizes AS (
        SELECT m.id, count(held.share) AS size, (SELECT count(*) FROM held) AS shares
          FROM members m LEFT JOIN held ON held.holder_id = m.id
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
