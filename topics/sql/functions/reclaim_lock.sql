-- Takes the lock that an advance holds shared while it looks at records and inserts spans. Returns whether it did. It waits at most
-- 100 ms, because later advances wait behind it. PostgreSQL does not log an error that is caught, and would log the whole statement
-- of each wait that ends without the lock.
CREATE OR REPLACE FUNCTION reclaim_lock() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '100ms', true);
    PERFORM pg_advisory_xact_lock(7001);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;
