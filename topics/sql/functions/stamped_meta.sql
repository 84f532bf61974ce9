-- Returns meta with the stamp of an exactly_once router: the origin of the record, and a key for readers that skip duplicates. Analysts
-- call it by topic_log with settings of their own, so its text has no backslash.
CREATE OR REPLACE FUNCTION stamped_meta(meta json, router text, source text, source_id bigint, source_seq bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN meta IS NULL OR meta::text ~ '^[[:space:]]*[{][[:space:]]*[}][[:space:]]*$' THEN '{'
                ELSE regexp_replace(meta::text, '[}][[:space:]]*$', ',') END
        || '"_topics_router":{"router":' || to_json(router) || ',"source":' || to_json(source)
        || ',"source_topic_id":' || source_id || ',"source_epoch":' || source_id || ',"source_seq":' || source_seq
        || ',"key":' || to_json(router || ':' || source_id || ':' || source_seq) || '}}'
$$;
