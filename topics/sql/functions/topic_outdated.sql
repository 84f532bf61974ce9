-- Rolls back the transaction of its caller, because the topic does not exist any more or has another version than the caller
-- knew.
CREATE OR REPLACE FUNCTION topic_outdated() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'the topic was configured anew';
END
$$;
