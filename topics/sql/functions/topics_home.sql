-- Where this database is: the server's identifier, and the oids of the database and of topics_survived. A copy by a dump or as a
-- template has another home.
CREATE OR REPLACE FUNCTION topics_home() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT (pg_control_system()).system_identifier || '/' || oid || '/' || 'topics_survived'::regclass::oid
      FROM pg_database WHERE datname = current_database()
$$;
