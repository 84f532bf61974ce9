-- Returns the first of the seqs p_first..p_last at which the payload from p_first on reaches p_bytes, or p_last if all of it is
-- less. All of these seqs must be stored. An append evicts few records, so the function reads the oldest ones first. Then it
-- continues with a binary search in the running totals.
CREATE OR REPLACE FUNCTION topic_seq_of_bytes(p_home_id bigint, p_first bigint, p_last bigint, p_bytes bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted bigint;  -- the running total that the result reaches
    found  bigint;
    low    bigint := least(p_first + 100, p_last);
    high   bigint := p_last;
    probe  bigint;
BEGIN
    SELECT total - size + p_bytes INTO wanted FROM topics_record WHERE topic_id = p_home_id AND seq = p_first;
    SELECT seq INTO found
      FROM (SELECT seq, total FROM topics_record WHERE topic_id = p_home_id AND seq >= p_first AND seq < low ORDER BY seq) oldest
     WHERE total >= wanted ORDER BY seq LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    WHILE low < high LOOP
        probe := (low + high) / 2;
        IF (SELECT total >= wanted FROM topics_record WHERE topic_id = p_home_id AND seq = probe) THEN
            high := probe;
        ELSE
            low := probe + 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;
