-- Returns the SHA-256 of records as PostgreSQL sees them: an append by SQL keeps it under its idempotency key. The lists are those of
-- topic_append_judged. p_n: only the records of this append (NULL: all). p_i: only the record at this place of the lists, from 1.
--
-- Each value has its length in front, so that two different lists have different texts. The trace that HTTP puts in front of `meta` does
-- not count (topics/append/records.py). The digest must not change, because kept keys have it.
CREATE OR REPLACE FUNCTION records_digest(
    p_data json, p_tags json, p_nodes json, p_metas json, p_ns bigint[] DEFAULT NULL, p_n bigint DEFAULT NULL, p_i bigint DEFAULT NULL
) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(convert_to(string_agg(concat(
               octet_length(data), ':', data, coalesce(octet_length(tag) || ':' || tag, '-'),
               coalesce(octet_length(node) || ':' || node, '-'), coalesce(octet_length(unstamped) || ':' || unstamped, '-')),
               '' ORDER BY i), 'UTF8'))
      FROM (SELECT record.data::text AS data, record.tag, record.node, record.n, record.i,
                   nullif(CASE WHEN starts_with(record.meta::text, '{"traceparent":"')
                               THEN regexp_replace(regexp_replace(record.meta::text, '^\{"traceparent":"[0-9a-f-]{55}"\}$', 'null'),
                                                   '^\{"traceparent":"[0-9a-f-]{55}",', '{')
                               ELSE record.meta::text END, 'null') AS unstamped
              FROM ROWS FROM (json_array_elements(p_data), json_array_elements_text(p_tags), json_array_elements_text(p_nodes),
                              json_array_elements(p_metas), unnest(p_ns))
                        WITH ORDINALITY AS record (data, tag, node, meta, n, i)) record
     WHERE (p_n IS NULL OR n = p_n) AND (p_i IS NULL OR i = p_i)
$$;
