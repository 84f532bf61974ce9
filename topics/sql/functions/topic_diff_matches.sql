-- Reads the next p_limit matches of a topic (docs/wire.md, "window": "matches"), where topic_diff reads the next p_limit seqs. A
-- match has a tag as in topic_matching, and none of the nodes p_nodes.
--
-- p_order is asc (up from p_from_seq), desc (down from p_from_seq, or from the head if it is 0), or tail (the last matches, in
-- ascending order). Only asc tells losses. desc and tail show the records that exist. next_from_seq is the seq at which the reader
-- continues. If the call examined p_most records before it had p_limit matches, scanned_to is the last examined seq.
CREATE OR REPLACE FUNCTION topic_diff_matches(
    p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text,
    p_match_end text, p_order text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint, p_most integer,
    OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint,
    OUT lost text, OUT gap_to bigint, OUT lost_from bigint, OUT scanned_to bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE AS $$
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
