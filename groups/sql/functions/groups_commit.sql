-- Commits the cursors of a session's shares, all or none, and notes that the session is alive. The arrays are parallel.
--
-- is_alive: false if the session has ended. beyond_seq: a given seq above p_head_seq, which no record has. stale: the given shares
-- that are not the session's in the given generation, with
-- commas. In these three cases the call changes nothing but the session's time.
CREATE OR REPLACE FUNCTION groups_commit(
    p_group_id bigint, p_session bigint, p_head_seq bigint, p_shares integer[], p_generations bigint[], p_seqs bigint[],
    OUT is_alive boolean, OUT beyond_seq bigint, OUT stale text
)
LANGUAGE plpgsql AS $$
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
