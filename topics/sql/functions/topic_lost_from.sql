-- Returns the first seq that a crash of PostgreSQL took back, for a reader at p_from_seq. It is above p_from_seq, or lower: the
-- reader can have seen records from there on that do not exist any more. reserved_seq makes sure that the reader has seen no
-- others.
CREATE OR REPLACE FUNCTION topic_lost_from(p_topic_id bigint, p_from_seq bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(p_from_seq + 1, (
        SELECT first_seq FROM topics_crashloss
         WHERE topic_id = p_topic_id AND last_seq > p_from_seq ORDER BY last_seq LIMIT 1));
END
$$;
