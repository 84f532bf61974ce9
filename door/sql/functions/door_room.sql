-- Raises `throttled` if the topics would hold more than TOPICS_MAX_TOTAL_BYTES with these records. The lists are those of topic_append.
CREATE OR REPLACE FUNCTION door_room(p_data json, p_metas json, limits door_limits) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    held constant bigint := CASE WHEN limits.max_total_bytes > 0 THEN (SELECT bytes FROM topic_totals()) END;
BEGIN
    IF held + octet_length(p_data::text) + octet_length(p_metas::text) > limits.max_total_bytes THEN
        PERFORM door_refuse('throttled', format('the topics hold %s of at most %s bytes (TOPICS_MAX_TOTAL_BYTES): delete records', held,
                                                limits.max_total_bytes),
                            json_build_object('limit', 'total_bytes', 'max', limits.max_total_bytes));
    END IF;
END
$$;
