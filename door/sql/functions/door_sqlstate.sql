-- Returns the SQLSTATE of an error of the wire: all are of the class TP (docs/sql.md). NULL: the schema `topics` has no such error.
CREATE OR REPLACE FUNCTION door_sqlstate(p_code text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_code
           WHEN 'invalid_request' THEN 'TP001'
           WHEN 'batch_too_large' THEN 'TP002'
           WHEN 'record_too_large' THEN 'TP003'
           WHEN 'forbidden' THEN 'TP004'
           WHEN 'topic_not_found' THEN 'TP005'
           WHEN 'not_found' THEN 'TP006'
           WHEN 'not_a_queue' THEN 'TP007'
           WHEN 'head_mismatch' THEN 'TP008'
           WHEN 'topic_sealed' THEN 'TP009'
           WHEN 'cursor_moved' THEN 'TP010'
           WHEN 'topic_exists_incompatible' THEN 'TP011'
           WHEN 'topic_full' THEN 'TP012'
           WHEN 'idempotency_mismatch' THEN 'TP013'
           WHEN 'throttled' THEN 'TP014'
           WHEN 'storage_full' THEN 'TP015' END
$$;
