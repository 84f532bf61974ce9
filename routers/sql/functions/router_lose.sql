-- Tells a dest that its source lost p_lost records before a router could forward them, so that readers get a tombstone `source_trim`. The
-- caller holds the dest's head FOR UPDATE.
CREATE OR REPLACE FUNCTION router_lose(p_dest_id bigint, p_lost bigint, p_now bigint, p_path text[]) RETURNS void
LANGUAGE sql AS $$
    SELECT topic_lose(p_dest_id, p_lost, p_now, p_path)
$$;
