-- Creates a topic with the config of any new topic, unless a topic has the name (topic_create).
CREATE OR REPLACE FUNCTION pipeline_create(p_topic text, p_now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_topic !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$' THEN
        RAISE EXCEPTION 'topic % is no valid name: 1 to 255 of A-Z a-z 0-9 . _ : - are, with a letter or digit first',
              quote_literal(left(p_topic, 80)) USING ERRCODE = 'invalid_parameter_value', HINT = 'invalid_request';
    END IF;
    PERFORM topic_create(p_topic, p_now_ms);
END
$$;
