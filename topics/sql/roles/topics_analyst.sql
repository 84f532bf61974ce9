-- Analysts read the log and what explains it, and change nothing. They see no keys and no users: GRANT topics_analyst TO somebody.
-- If the user of the migration may not create roles, another user creates this role first. Without it there are no analysts.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        BEGIN
            CREATE ROLE topics_analyst NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'the role topics_analyst does not exist, and % may not create it', current_user;
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL;  -- the migration of another database created it meanwhile: all databases of a server share its roles
        END;
    END IF;
    GRANT SELECT ON topic_log, topic_heads, topic_cursors, topics_topic, topics_topichead, topics_record, topics_span, topics_cursor,
                    topics_deletedtopic, topics_clockstep, topics_crashloss TO topics_analyst;
END
$$;
