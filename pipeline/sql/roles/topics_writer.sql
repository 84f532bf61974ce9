-- Writers on Spark append by pipeline_append, ask by pipeline_earlier what a repeated write has done, note its end by pipeline_mark, and move
-- named cursors by pipeline_follow. They read no table, and change nothing else: GRANT topics_writer TO somebody.
REVOKE ALL ON FUNCTION pipeline_append, pipeline_store, pipeline_judge, pipeline_create, pipeline_earlier, pipeline_follow, pipeline_mark
    FROM PUBLIC;
DO $$
BEGIN
    IF NOT role_made('topics_writer') THEN
        RETURN;
    END IF;
    IF current_schema() <> 'public' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO topics_writer', current_schema());
    END IF;
    GRANT EXECUTE ON FUNCTION pipeline_append, pipeline_earlier, pipeline_follow, pipeline_mark TO topics_writer;
    -- Earlier versions granted it, with the names and configs of all topics.
    REVOKE SELECT ON topics_topic, pipeline_written, topics_total, topics_topichead FROM topics_writer;
END
$$;
