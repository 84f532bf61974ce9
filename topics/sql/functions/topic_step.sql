-- Returns how many entries of a topic with holes, own records and spans, a transaction counts at most while it holds the head's lock.
-- Appends wait meanwhile: it takes some 10 ms.
CREATE OR REPLACE FUNCTION topic_step() RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT 10000
$$;
