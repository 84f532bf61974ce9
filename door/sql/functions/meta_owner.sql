-- Returns which part of a server writes a key of `meta` (base/bounds.py), or NULL for a key that clients may write. All
-- of them begin with $ or _, so that topics.emit_size need not know them.
CREATE OR REPLACE FUNCTION meta_owner(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_key IN ('$dead_letter_from', '$dead_letter_deliveries', '$dead_letter_src_seq', '$dead_letter_error') THEN 'queues'
                WHEN p_key = '_topics_mirror' THEN 'mirrors' END
$$;
