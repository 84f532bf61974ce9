-- Locks groups with their members and shares, in the order of groups_assign, before they are deleted. The cascade of the delete takes
-- them in any order, so it could deadlock with statements about several members or shares.
CREATE OR REPLACE FUNCTION groups_lock(p_group_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM groups_group WHERE id = ANY (p_group_ids) ORDER BY id FOR UPDATE;
    PERFORM FROM groups_member WHERE group_id = ANY (p_group_ids) ORDER BY id FOR UPDATE;
    PERFORM FROM groups_share WHERE group_id = ANY (p_group_ids) ORDER BY group_id, share FOR UPDATE;
END
$$;
