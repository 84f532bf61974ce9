-- Raises the error of an append that topic_append refused. `done` is its result, and p_count the number of records.
CREATE OR REPLACE FUNCTION door_refuse_append(p_topic topics_topic, done record, p_count bigint, p_key text, p_expected_head bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    key text := p_key;
BEGIN
    CASE done.verdict
    WHEN 'sealed' THEN
        PERFORM door_refuse('topic_sealed', format('topic %L is sealed, and takes no records and no deletes: unseal the topic with a PUT, sealed: false',
                                                   p_topic.name),
                            json_build_object('topic', p_topic.name));
    WHEN 'head' THEN
        PERFORM door_refuse('head_mismatch', format('the head is %s, not %s: read the topic, then append again', done.head_seq, p_expected_head),
                            json_build_object('head_seq', done.head_seq, 'expected_head', p_expected_head));
    WHEN 'full' THEN
        IF p_topic.cap_records > 0 AND done.records + p_count > p_topic.cap_records THEN
            PERFORM door_refuse('topic_full', format('topic %L has no room: %s of at most %s records', p_topic.name, done.records, p_topic.cap_records),
                                json_build_object('cap_records', p_topic.cap_records));
        END IF;
        PERFORM door_refuse('topic_full', format('topic %L has no room: %s of at most %s bytes', p_topic.name, done.bytes, p_topic.cap_bytes),
                            json_build_object('cap_bytes', p_topic.cap_bytes));
    WHEN 'other' THEN
        IF p_topic.unique_tags THEN
            key := key || '#' || done.place;
        END IF;
        PERFORM door_refuse('idempotency_mismatch',
                            format('an append with the idempotency key %L and other records exists, seqs %s to %s: send the same bytes again, or use another key',
                                   key, done.first_seq, done.last_seq),
                            json_build_object('first_seq', done.first_seq, 'last_seq', done.last_seq));
    WHEN 'twice' THEN
        PERFORM door_refuse('invalid_request',
                            format('records[%s] and records[%s] both have the same tag, and the queue has unique_tags: send one job for each tag',
                                   done.other, done.place),
                            '{"field":"records"}');
    WHEN 'deep' THEN
        PERFORM door_deep(done.place);
    END CASE;
END
$$;
