-- Returns the first number of an append that is beyond the range of a 64-bit double: its path, such as records[3].data.amounts[2], and the
-- index of its record. Both are NULL if there is no such number. The lists are those of topic_append.
CREATE OR REPLACE FUNCTION records_overflow(p_data json, p_metas json, OUT field text, OUT index bigint)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT format('records[%s].%s', place - 1, path), place - 1 INTO field, index
      FROM ROWS FROM (json_array_elements(p_data), json_array_elements(p_metas)) WITH ORDINALITY AS sent (data, meta, place)
     CROSS JOIN LATERAL (SELECT coalesce('data' || json_overflow(data::text), 'meta' || json_overflow(meta::text)) AS path) number
     WHERE path IS NOT NULL ORDER BY place LIMIT 1;
END
$$;
