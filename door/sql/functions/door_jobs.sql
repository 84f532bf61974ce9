-- Raises `invalid_request` or `batch_too_large` for a list of jobs that a call cannot settle.
CREATE OR REPLACE FUNCTION door_jobs(p_seqs bigint[], p_lease_ids uuid[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_seqs IS NULL OR array_position(p_seqs, NULL) IS NOT NULL THEN
        PERFORM door_refuse('invalid_request', 'invalid value in the body at seqs: expected whole numbers', '{"field":"seqs"}');
    ELSIF cardinality(p_seqs) > 1000 THEN
        PERFORM door_refuse('batch_too_large', format('%s seqs in one call: expected at most 1000', cardinality(p_seqs)), '{"max":1000}');
    ELSIF cardinality(p_lease_ids) <> cardinality(p_seqs) THEN
        PERFORM door_refuse('invalid_request', format('%s lease_ids for %s seqs: expected one for each seq', cardinality(p_lease_ids),
                                                      cardinality(p_seqs)),
                            '{"field":"lease_ids"}');
    END IF;
END
$$;
