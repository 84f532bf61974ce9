-- Writers on Spark append by pipeline_append, move named cursors by pipeline_follow, and change nothing else: GRANT topics_writer TO
-- somebody. If the user of the migration may not create roles, another user creates this role first. Without it there are no writers.
REVOKE ALL ON FUNCTION pipeline_append, pipeline_follow, pipeline_create FROM PUBLIC;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_writer') THEN
        BEGIN
            CREATE ROLE topics_writer NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'the role topics_writer does not exist, and % may not create it', current_user;
                RETURN;
            WHEN duplicate_object OR unique_violation THEN
                NULL;  -- the migration of another database created it meanwhile: all databases of a server share its roles
        END;
    END IF;
    GRANT EXECUTE ON FUNCTION pipeline_append, pipeline_follow TO topics_writer;
    GRANT SELECT ON topics_topic, pipeline_written TO topics_writer;
END
$$;
