-- Returns what a reader that continues after p_from up to p_upto has missed: the reason of a tombstone (docs/wire.md),
-- 'deleted' or 'recreated' for a topic that does not exist any more, or NULL. Deleted records do not count. The reason is also
-- 'recreated' if the reader starts below the last head of the topic's predecessors.
CREATE OR REPLACE FUNCTION pipeline_loss(p_topic text, p_topic_id bigint, p_from bigint, p_upto bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    topic topics_topic;
    head  topics_topichead;
BEGIN
    SELECT * INTO topic FROM topics_topic WHERE id = p_topic_id;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM topics_topic WHERE name = p_topic) THEN 'recreated' ELSE 'deleted' END;
    END IF;
    SELECT * INTO head FROM topics_topichead WHERE topic_id = p_topic_id;
    IF topic.ttl_ms > 0 THEN
        head := topic_as_expired(head, (extract(epoch FROM statement_timestamp()) * 1000)::bigint - topic.ttl_ms);
    END IF;
    IF head.recreated_seq > p_from THEN
        RETURN 'recreated';
    END IF;
    RETURN (SELECT CASE WHEN count(*) > 1 THEN 'mixed' ELSE min(why) END
              FROM (SELECT why
                      FROM (VALUES ('cap', head.cap_lost_seq), ('ttl', head.ttl_lost_seq),
                                   ('restart', head.restart_lost_seq), ('source_trim', head.source_lost_seq),
                                   ('capture', head.capture_lost_seq)) lost (why, seq)
                     WHERE seq > p_from
                     UNION
                    SELECT topic_loss_reason(path)
                      FROM topics_span
                     WHERE topic_id = p_topic_id AND home_id IS NULL AND last_seq > p_from AND first_seq <= p_upto) loss);
END
$$;
