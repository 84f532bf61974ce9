-- Returns the entries of a router on a cycle that are new to the dest. Each entry is one record. A record enters a topic on a
-- cycle once. So the function leaves out records that the dest has or had, which its spans prove even if they are hidden. Of
-- two entries of one record it leaves out the second. A topic gets no loss back that came through it, because it told that loss
-- first.
CREATE OR REPLACE FUNCTION router_unheld(entries topics_span[], p_dest_id bigint) RETURNS SETOF topics_span
LANGUAGE sql STABLE AS $$
    WITH entry AS (SELECT * FROM unnest(entries)),
    -- The query uses the index of homes in a topic, in its order. A span has at most 100,000 seqs.
    held AS (
        SELECT span.home_id, range_agg(int8range(span.home_first_seq, span.home_last_seq, '[]')) AS seqs
          FROM (SELECT home_id, min(home_first_seq) AS first, max(home_last_seq) AS last
                  FROM entry WHERE home_id IS NOT NULL GROUP BY home_id) home
         CROSS JOIN LATERAL (
               SELECT * FROM topics_span
                WHERE home_id = home.home_id AND topic_id = p_dest_id AND home_last_seq >= home.first
                  AND home_last_seq < home.last + 100000 AND home_first_seq <= home.last ORDER BY home_last_seq OFFSET 0) span
         GROUP BY span.home_id)
    SELECT entry.topic_id, last_seq, first_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node, keep_tag, path,
           stamp_router, stamp_source, stamp_source_id, stamp_first_seq
      FROM (SELECT *, row_number() OVER (PARTITION BY home_id, home_first_seq ORDER BY first_seq) AS nth FROM entry) entry
      LEFT JOIN held USING (home_id)
     WHERE CASE WHEN home_id IS NULL
                THEN NOT EXISTS (SELECT FROM routers_router passed WHERE passed.name = ANY (entry.path) AND passed.source_id = p_dest_id)
                ELSE nth = 1 AND (held.seqs @> entry.home_first_seq) IS NOT TRUE END
     ORDER BY first_seq
$$;
