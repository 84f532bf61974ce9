-- Analysts see the routers, too (topics/sql/analyst_role.2.sql makes the role, where it may).
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        GRANT SELECT ON routers_router TO topics_analyst;
    END IF;
END
$$;
