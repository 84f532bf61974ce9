-- Whether a router may be advanced now: it runs, or it was blocked and its pause is over, or what the dest rejected fits by now.
--
-- Version 2: not one whose dest takes its sources in the order of their writes (`ordered`). The bus, which made such a router,
-- moves it together with the dest's other routers (push/sql/functions/push_fill.sql).
CREATE OR REPLACE FUNCTION router_due(router routers_router, p_now bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT router.ordered AND (
        router.state = 'running' OR router.state = 'blocked' AND (router.retry_ts <= p_now OR EXISTS (
        SELECT FROM topics_topic dest JOIN topics_topichead head ON head.topic_id = dest.id
         WHERE dest.id = router.dest_id AND router.retry_bytes IS NOT NULL AND NOT dest.sealed
           AND (dest.discard = 'old' OR (dest.cap_records = 0 OR head.count < dest.cap_records)
                                    AND (dest.cap_bytes = 0 OR head.bytes + router.retry_bytes <= dest.cap_bytes)))))
$$;
