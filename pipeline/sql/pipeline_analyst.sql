-- Analysts may begin to read at a time, which looks at the steps of clocks (topics/sql/analyst_role.2.sql makes the role, where it may).
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'topics_analyst') THEN
        GRANT SELECT ON topics_clockstep TO topics_analyst;
    END IF;
END
$$;
