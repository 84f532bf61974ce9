-- Returns the number of topics, of their records and of their bytes, exactly as of now: what topics_total holds, and the changes
-- of the unsettled heads since. topics/upkeep/totals.py adds the changes to topics_total, and the delete of a topic takes the
-- topic off. Both do it in the transaction that changes the head, so each snapshot has a change once.
CREATE OR REPLACE FUNCTION topic_totals(OUT topics bigint, OUT records bigint, OUT bytes bigint)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT coalesce(held.topics, 0)::bigint + changed.topics, (coalesce(held.records, 0) + coalesce(changed.records, 0))::bigint,
           (coalesce(held.bytes, 0) + coalesce(changed.bytes, 0))::bigint
      FROM (SELECT sum(topics) AS topics, sum(records) AS records, sum(bytes) AS bytes FROM topics_total) held,
           (SELECT count(*) FILTER (WHERE counted_seq < 0) AS topics, sum(count - counted_count) AS records,
                   sum(bytes - counted_bytes) AS bytes
              FROM topics_topichead WHERE unsettled) changed
$$;
