-- Advances the cursors of shares whose generation is still the given one, and moves the shares that are done. The arrays are
-- parallel. p_seqs: NULL leaves the cursor. p_drains: the last seq that the owner's stream sent, after it stopped because of the
-- decision p_turns.
CREATE OR REPLACE FUNCTION groups_settle(
    p_group_ids bigint[], p_shares integer[], p_generations bigint[], p_seqs bigint[], p_turns bigint[], p_drains bigint[]
) RETURNS void
LANGUAGE plpgsql AS $$
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
