-- Logins of applications append by topics.append, and work on jobs by topics.claim, topics.ack and topics.nack: GRANT topics_writer TO
-- somebody. outbox/ and pipeline/ give the role the rights of those who emit, and of Spark's writers.
REVOKE ALL ON FUNCTION topics.append, topics.claim, topics.ack, topics.nack FROM PUBLIC;
DO $$
BEGIN
    IF NOT role_made('topics_writer') THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA topics TO topics_writer;
    GRANT EXECUTE ON FUNCTION topics.append, topics.claim, topics.ack, topics.nack TO topics_writer;
END
$$;
