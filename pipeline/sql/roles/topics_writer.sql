-- Writers on Spark append by pipeline_append, note the end of a write by pipeline_mark, move named cursors by pipeline_follow, and
-- change nothing else: GRANT topics_writer TO somebody.
REVOKE ALL ON FUNCTION pipeline_append, pipeline_store, pipeline_judge, pipeline_follow, pipeline_mark FROM PUBLIC;
DO $$
BEGIN
    IF NOT role_made('topics_writer') THEN
        RETURN;
    END IF;
    IF current_schema() <> 'public' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO topics_writer', current_schema());
    END IF;
    GRANT EXECUTE ON FUNCTION pipeline_append, pipeline_follow, pipeline_mark TO topics_writer;
    GRANT SELECT ON topics_topic, pipeline_written TO topics_writer;
END
$$;
