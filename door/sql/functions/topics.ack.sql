CREATE OR REPLACE FUNCTION topics.ack(
    topic text, node text, seqs bigint[], lease_ids uuid[] DEFAULT NULL
) RETURNS TABLE (seq bigint, settled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    limits door_limits;
    done   bigint[];
BEGIN
    PERFORM door_check(ack.topic, 'write');
    SELECT * INTO limits FROM door_limits;
    PERFORM door_worker(ack.node, limits);
    PERFORM door_jobs(ack.seqs, ack.lease_ids);
    done := door_settle(ack.topic, ack.node, ack.seqs, ack.lease_ids);
    RETURN QUERY SELECT asked, coalesce(asked = ANY (done), false) FROM (SELECT DISTINCT unnest(ack.seqs) AS asked) asked ORDER BY asked;
END
$$;
COMMENT ON FUNCTION topics.ack IS
'Deletes jobs that a worker holds and has done, in your transaction: the rows that you wrote for a job commit with its end. Returns a row for each seq. settled is false if the worker does not hold the job any more: another worker can have it, so roll back. Until your commit, every other claim, ack and nack of the queue waits.';
