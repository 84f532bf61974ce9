-- Returns PostgreSQL's time in ms since the epoch. Leases use this clock, because all processes share it.
CREATE OR REPLACE FUNCTION queue_now() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
