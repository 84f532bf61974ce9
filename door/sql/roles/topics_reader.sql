-- Logins of applications read by topics.read, read and commit named cursors by topics.read_cursor and topics.commit_cursor, and see
-- their lag by topics.lag: GRANT topics_reader TO somebody.
REVOKE ALL ON FUNCTION topics.read, topics.read_cursor, topics.commit_cursor, topics.lag FROM PUBLIC;
DO $$
BEGIN
    IF NOT role_made('topics_reader') THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA topics TO topics_reader;
    GRANT EXECUTE ON FUNCTION topics.read, topics.read_cursor, topics.commit_cursor, topics.lag TO topics_reader;
END
$$;
