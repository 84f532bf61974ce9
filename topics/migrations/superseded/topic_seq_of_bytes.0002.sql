-- Returns the first of the seqs p_first..p_last at which the payload from p_first on reaches p_bytes, or p_last if all of it is
-- less. All of these seqs must be stored. It is a binary search in the running totals.
CREATE OR REPLACE FUNCTION topic_seq_of_bytes(p_home_id bigint, p_first bigint, p_last bigint, p_bytes bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    base  bigint;
    low   bigint := p_first;
    high  bigint := p_last;
    probe bigint;
BEGIN
    SELECT total - size INTO base FROM topics_record WHERE topic_id = p_home_id AND seq = p_first;
    WHILE low < high LOOP
        probe := (low + high) / 2;
        IF (SELECT total - base >= p_bytes FROM topics_record WHERE topic_id = p_home_id AND seq = probe) THEN
            high := probe;
        ELSE
            low := probe + 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;
