-- Returns how many of these entries a dest that rejects can take. Each entry is one record. `upto` is the last source seq
-- before the first record without room, and `rejected` is the size of that record. Both are NULL if all fit. room_records and
-- room_bytes are what the caps leave, or NULL without such a cap. The caller holds the dest's head.
CREATE OR REPLACE FUNCTION router_fitting(
    entries topics_span[], room_records bigint, room_bytes bigint, OUT upto bigint, OUT rejected bigint
)
LANGUAGE sql STABLE AS $$
    SELECT first_seq - 1, size
      FROM (SELECT first_seq, size, count(*) OVER sofar AS records, sum(size) OVER sofar AS bytes
              FROM (SELECT first_seq, (SELECT size FROM topics_record r WHERE r.topic_id = home_id AND r.seq = home_first_seq) AS size
                      FROM unnest(entries) WHERE home_id IS NOT NULL) sized  -- a loss needs no room
            WINDOW sofar AS (ORDER BY first_seq ROWS UNBOUNDED PRECEDING)) measured
     WHERE records > room_records OR bytes > room_bytes
     ORDER BY first_seq LIMIT 1
$$;
