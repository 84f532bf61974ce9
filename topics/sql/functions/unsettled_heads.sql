-- Returns the heads of the topics for which background work may be left: reserved seqs to release, records to reclaim, an expiry to
-- note, or changes that topics_total does not hold yet. A topic without appends and deletes settles within some minutes. So the background reads
-- what is due, however many topics there are.
--
-- A topic is unsettled while it is written, because it has reserved seqs until it is at rest. The planner can believe that all
-- topics are unsettled, as after an import, and would read the whole table: it may not. A bitmap scan would read the versions
-- from before a topic settled again and again, because only an index scan marks their entries as dead.
CREATE OR REPLACE FUNCTION unsettled_heads() RETURNS SETOF topics_topichead
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT * FROM topics_topichead WHERE unsettled
$$;
