-- Returns why the seqs of a piece without a home were lost. A crash leaves no path (topics_recover.sql). `$capture`, which no router can
-- be called, stands for changes of a table that could not be captured (topics.capture). Any other path is of routers or mirrors.
CREATE OR REPLACE FUNCTION topic_loss_reason(p_path text[]) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE p_path WHEN '{}' THEN 'restart' WHEN '{$capture}' THEN 'capture' ELSE 'source_trim' END;
