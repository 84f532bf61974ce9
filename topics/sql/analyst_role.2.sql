-- Analysts read the log and what explains it, and change nothing: GRANT topics_analyst TO somebody. Keys and users stay out of sight.
-- Where the migration's user may not make roles, somebody else makes this one first, or there is none.
--
-- Version 2: the routers grant what is theirs (routers/sql/routers_analyst.sql).
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        BEGIN
            CREATE ROLE topics_analyst NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'the role topics_analyst is not there, and may not be made by %', current_user;
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database's migration was quicker: roles are the server's
        END;
    END IF;
    GRANT SELECT ON topic_log, topics_topic, topics_topichead, topics_record, topics_cursor, topics_deletedtopic,
                    routers_span TO topics_analyst;
END
$$;
