-- Returns the new reserved_seq of a topic whose head advances to p_head_seq. A topic gives out the seqs up to `reserved_seq`
-- without waiting for the disk, because reserved_seq is on disk before any of them is visible.
--
-- A head that reaches reserved_seq reserves an eighth of its seqs more: at least 8,192, at most a million. Its own transaction
-- then waits for the disk, because PostgreSQL shows a synchronous commit to others only after the flush. So a crash takes back
-- no seq above reserved_seq that a reader has seen, and a topic that continues above it gives no seq out twice
-- (topics_recover). One append in thousands waits.
--
-- The wait holds the head, and so all appends to the topic. With a fixed small reserve, a topic that takes 100,000 records a
-- second would wait twelve times a second. A small topic reserves few, so that its gap after a crash is small.
--
-- A head exactly at reserved_seq must reserve more, too. Otherwise a reader could be at reserved_seq, where the numbering
-- continues after a crash, and would get no tombstone for the lost records.
--
-- The body is one expression, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION topic_reserve(p_head_seq bigint, p_reserved_seq bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p_head_seq < p_reserved_seq THEN p_reserved_seq
                WHEN set_config('synchronous_commit', 'on', true) = 'on'
                THEN p_head_seq + least(greatest(p_head_seq / 8, 8192), 1000000) END
$$;
