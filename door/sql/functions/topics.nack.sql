CREATE OR REPLACE FUNCTION topics.nack(
    topic text, node text, seqs bigint[], lease_ids uuid[] DEFAULT NULL, delay_ms bigint DEFAULT 0, error text DEFAULT NULL
) RETURNS TABLE (seq bigint, settled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    limits door_limits;
    done   bigint[];
BEGIN
    PERFORM door_check(nack.topic, 'write');
    SELECT * INTO limits FROM door_limits;
    PERFORM door_worker(nack.node, limits);
    PERFORM door_jobs(nack.seqs, nack.lease_ids);
    PERFORM door_number('delay_ms', nack.delay_ms, 0, 86400000);
    PERFORM door_label('error', to_json(nack.error), 2048);
    done := door_settle(nack.topic, nack.node, nack.seqs, nack.lease_ids, nack.delay_ms, nack.error);
    RETURN QUERY SELECT asked, coalesce(asked = ANY (done), false) FROM (SELECT DISTINCT unnest(nack.seqs) AS asked) asked ORDER BY asked;
END
$$;
COMMENT ON FUNCTION topics.nack IS
'Gives jobs that a worker holds back, in your transaction: other workers can claim them after delay_ms. Returns a row for each seq, as ack does. error: what went wrong, at most 2048 bytes.';
