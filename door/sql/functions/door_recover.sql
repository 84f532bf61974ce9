-- Repairs the heads after a crash of PostgreSQL, if no process of the server has done so yet (topics_recover): an application can be the
-- first to connect. Without a crash it reads one row.
CREATE OR REPLACE FUNCTION door_recover() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM topics_survived WHERE home = topics_home()) THEN
        PERFORM topics_recover();
    END IF;
END
$$;
