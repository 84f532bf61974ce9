-- Returns whether a router may advance now: it runs, or its pause is over, or the record that the dest rejected fits now. An
-- `ordered` router is never due. Its dest takes all its sources in the order of their writes, so
-- push/sql/functions/push_fill.sql advances it together with the dest's other routers.
CREATE OR REPLACE FUNCTION router_due(router routers_router, p_now bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT router.ordered AND (
        router.state = 'running' OR router.state = 'blocked' AND (router.retry_ts <= p_now OR EXISTS (
        SELECT FROM topics_topic dest JOIN topics_topichead head ON head.topic_id = dest.id
         WHERE dest.id = router.dest_id AND router.retry_bytes IS NOT NULL AND NOT dest.sealed
           AND (dest.discard = 'old' OR (dest.cap_records = 0 OR head.count < dest.cap_records)
                                    AND (dest.cap_bytes = 0 OR head.bytes + router.retry_bytes <= dest.cap_bytes)))))
$$;
