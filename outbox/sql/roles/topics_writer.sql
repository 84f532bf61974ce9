-- Logins of applications emit, and capture tables, by topics.emit and topics.emit_many: GRANT topics_writer TO somebody. door/sql/roles/topics_writer.sql gives
-- the role the other functions for writers.
REVOKE ALL ON FUNCTION topics.emit, topics.emit_many, topics.emit_checked, topics.emit_may, topics.emit_size,
    topics.capture, topics.uncapture, topics.capture_note, topics.capture_forget, topics.capture_changes FROM PUBLIC;
DO $$
BEGIN
    IF NOT role_made('topics_writer') THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA topics TO topics_writer;
    GRANT EXECUTE ON FUNCTION topics.emit, topics.emit_many TO topics_writer;
    -- topics.capture and topics.uncapture run as their caller. PostgreSQL asks for capture_changes when a trigger is created.
    GRANT EXECUTE ON FUNCTION topics.capture, topics.uncapture, topics.capture_note, topics.capture_forget, topics.capture_changes TO topics_writer;
    GRANT SELECT ON topics.captures TO topics_writer;
END
$$;
