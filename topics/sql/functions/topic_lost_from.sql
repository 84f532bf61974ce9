-- Where a loss by a crash of PostgreSQL begins for a reader at p_from_seq. That is behind it, or lower: the crash took back records
-- from there on that the reader may have been shown, and reserved_seq says that it cannot have been shown others.
CREATE OR REPLACE FUNCTION topic_lost_from(p_topic_id bigint, p_from_seq bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(p_from_seq + 1, (
        SELECT first_seq FROM topics_crashloss
         WHERE topic_id = p_topic_id AND last_seq > p_from_seq ORDER BY last_seq LIMIT 1));
END
$$;
