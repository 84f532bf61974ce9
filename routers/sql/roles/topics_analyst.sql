-- Analysts read the routers, too. topics/sql/roles/topics_analyst.sql creates the role, if it may.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        GRANT SELECT ON routers_router TO topics_analyst;
    END IF;
END
$$;
