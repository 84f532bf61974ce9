-- Creates a role that cannot log in, if it is missing, and returns whether it is there. If the user of the migration may not create
-- roles, another user creates it first. Without the role, nobody has its rights.
CREATE OR REPLACE FUNCTION role_made(p_role text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', p_role);
    END IF;
    RETURN true;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'the role % does not exist, and % may not create it', p_role, current_user;
        RETURN false;
    WHEN duplicate_object OR unique_violation THEN
        RETURN true;  -- the migration of another database created it meanwhile: all databases of a server share its roles
END
$$;
