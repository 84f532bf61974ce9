-- Deals jobs of these sizes out, in order, to claimers that want p_maxes[n] jobs. Returns the claimer of each job. The array ends
-- where no claimer takes another job. p_even: one job for each claimer in turn. Otherwise the first claimer gets all wanted jobs, then the next.
--
-- A claimer stops before the job that would exceed p_bytes, but always takes a first job.
CREATE OR REPLACE FUNCTION queue_deal(p_sizes integer[], p_maxes integer[], p_even boolean, p_bytes bigint) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    claimers integer := cardinality(p_maxes);
    n        integer := 1;
    skipped  integer;  -- claimers in a row that do not take this job
    taken    integer[] := array_fill(0, ARRAY[claimers]);
    bytes    bigint[] := array_fill(0, ARRAY[claimers]);
    dealt    integer[] := '{}';
    job      integer;
BEGIN
    FOREACH job IN ARRAY coalesce(p_sizes, '{}') LOOP
        skipped := 0;
        WHILE taken[n] = p_maxes[n] OR (taken[n] > 0 AND bytes[n] + job > p_bytes) LOOP
            skipped := skipped + 1;
            IF skipped = claimers THEN
                RETURN dealt;
            END IF;
            n := n % claimers + 1;
        END LOOP;
        taken[n] := taken[n] + 1;
        bytes[n] := bytes[n] + job;
        dealt := dealt || n;
        IF p_even THEN
            n := n % claimers + 1;
        END IF;
    END LOOP;
    RETURN dealt;
END
$$;
