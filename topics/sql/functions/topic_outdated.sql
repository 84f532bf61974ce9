-- Undoes the transaction that calls it: the topic is not the one, or not in the version, that its caller knew.
CREATE OR REPLACE FUNCTION topic_outdated() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'the topic was configured anew';
END
$$;
