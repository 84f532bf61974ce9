-- Undoes the transaction that calls it: what it was made for is no longer so. Where a statement found no topic of the version that
-- its caller knew, after it has already changed something, this stands in place of a result.
CREATE FUNCTION topic_outdated() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'the topic was configured anew';
END
$$;
