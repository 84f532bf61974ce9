"""Functions that PostgreSQL lets every login call, and the statement that leaves them to logins that write topics."""

# The try_ functions take locks, too. Unlocking is harmless.
OPEN_FUNCTIONS = (
    "SELECT oid::regprocedure::text AS called FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
    " AND (proname ~ '^pg_(try_)?advisory_(xact_)?lock' OR proname IN ('lo_creat', 'lo_create', 'lo_from_bytea'))"
    " AND has_function_privilege('public', oid, 'EXECUTE')"
)
# For a superuser, on one line for PostgreSQL's single-user mode. The grant is first, so logins that write never lack the right.
CLOSE_FUNCTIONS = (
    "DO $$ DECLARE each text; BEGIN"
    f" FOR each IN {OPEN_FUNCTIONS} LOOP"
    " EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {writers}', each);"
    " EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', each);"
    " END LOOP; END $$"
)
