-- Returns the first seq in (p_after, p_head] whose time is at least p_ts, or p_head + 1 if all are older. A record's time is
-- its $ts. It does not decrease with seq, so a binary search finds it: about 25 index probes in a topic of 10 million.
--
-- If $ts once fell (topics_clockstep), it shows only later which clock was wrong (docs/deploy.md, Clocks):
-- - Until the latest $ts before the fall is past, the old clock counts as ahead. Records up to the fall count as written at the
--   fall.
-- - From then on the new clock counts as behind. Records after the fall count as not older than that latest $ts, so that a ttl
--   deletes none early.
CREATE OR REPLACE FUNCTION topic_seq_at(p_topic_id bigint, p_after bigint, p_head bigint, p_ts bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    low   bigint := p_after + 1;  -- all seqs below are older
    high  bigint := p_head + 1;   -- all seqs from here on are not older
    probe bigint := low;          -- the oldest first, because usually no record is older
    place record;
    step  topics_clockstep;
    ahead boolean;
BEGIN
    SELECT * INTO step FROM topics_clockstep WHERE topic_id = p_topic_id;  -- few topics have one
    ahead := step.until_ts > extract(epoch FROM statement_timestamp()) * 1000;
    WHILE low < high LOOP
        SELECT first_seq, last_seq, ts INTO place FROM (
            (SELECT seq AS first_seq, seq AS last_seq, ts FROM topics_record
              WHERE topic_id = p_topic_id AND seq >= probe AND seq <= p_head ORDER BY seq LIMIT 1)
            UNION ALL
            (SELECT first_seq, last_seq, ts FROM topics_span
              WHERE topic_id = p_topic_id AND last_seq >= probe ORDER BY last_seq LIMIT 1)) place
         ORDER BY last_seq LIMIT 1;
        IF NOT FOUND THEN
            high := probe;
        ELSIF (CASE WHEN ahead AND place.last_seq <= step.upto_seq THEN least(place.ts, step.ts)
                    WHEN NOT ahead AND place.last_seq > step.upto_seq THEN greatest(place.ts, step.until_ts)
                    ELSE place.ts END) >= p_ts THEN
            high := probe;
            IF place.first_seq < probe THEN high := greatest(place.first_seq, low); END IF;
        ELSE
            low := place.last_seq + 1;
        END IF;
        probe := (low + high) / 2;
    END LOOP;
    RETURN least(low, p_head + 1);
END
$$;
