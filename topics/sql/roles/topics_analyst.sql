-- Analysts read the log and what explains it, and change nothing. They see no keys and no users: GRANT topics_analyst TO somebody.
DO $$
BEGIN
    IF NOT role_made('topics_analyst') THEN
        RETURN;
    END IF;
    IF current_schema() <> 'public' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO topics_analyst', current_schema());
    END IF;
    GRANT SELECT ON topic_log, topic_heads, topic_cursors, topics_topic, topics_topichead, topics_record, topics_span, topics_cursor,
                    topics_deletedtopic, topics_clockstep, topics_crashloss TO topics_analyst;
END
$$;
