-- Joins entries into the spans that they will be. An entry that continues the one before, by the same way, becomes part of it.
-- A loss stays by itself. The entries are in order. first_seq and last_seq of the spans count from 1. The caller adds the
-- dest's head.
CREATE OR REPLACE FUNCTION router_joined(entries topics_span[]) RETURNS SETOF topics_span
LANGUAGE sql STABLE AS $$
    SELECT topic_id, last, before + 1, home_id, home_first_seq, home_first_seq + last - before - 1, 0::bigint, shown, keep_node, keep_tag,
           path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq
      FROM (SELECT *, coalesce(lead(before) OVER (ORDER BY place),
                               (SELECT sum(last_seq - first_seq + 1) FROM unnest(entries)))::bigint AS last
              FROM (SELECT *, ordinality AS place, (sum(last_seq - first_seq + 1) OVER sofar)::bigint - (last_seq - first_seq + 1) AS before,
                           home_id IS NULL
                           OR ROW (home_id, home_first_seq, stamp_first_seq, keep_node, keep_tag, path, stamp_router, stamp_source_id)
                              IS DISTINCT FROM
                              lag(ROW (home_id, home_last_seq + 1, stamp_first_seq + last_seq - first_seq + 1, keep_node, keep_tag, path,
                                       stamp_router, stamp_source_id)) OVER sofar AS begins
                      FROM unnest(entries) WITH ORDINALITY
                    WINDOW sofar AS (ORDER BY ordinality ROWS UNBOUNDED PRECEDING)) entry
             WHERE begins) piece
$$;
