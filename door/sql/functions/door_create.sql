-- Creates a topic with the config of any new topic, unless a topic has the name (topic_create). Raises `invalid_request` for a name that no
-- topic can have, and `throttled` if there are TOPICS_MAX_TOPICS.
CREATE OR REPLACE FUNCTION door_create(p_topic text, p_now bigint, limits door_limits) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM door_name(p_topic, 'topic');
    IF limits.max_topics > 0 AND (SELECT topics FROM topic_totals()) >= limits.max_topics THEN
        PERFORM door_refuse('throttled', format('the cap of %s is reached (topics): try again later', limits.max_topics),
                            json_build_object('limit', 'topics', 'max', limits.max_topics));
    END IF;
    PERFORM topic_create(p_topic, p_now);
END
$$;
