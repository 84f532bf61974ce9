-- Appends a chunk of a batch for a writer on Spark, by pipeline_store, with its results. It takes what topics.append takes, because a login
-- can also call it by itself: so it judges the records (pipeline_judge), although the sink has done so.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can append and do nothing else. So it asks for the
-- rights of the login first (door_check).
CREATE OR REPLACE FUNCTION pipeline_append(
    p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint,
    p_data json, p_tags json, p_nodes json, p_metas json
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
DECLARE
    stored bigint;
BEGIN
    PERFORM door_check(p_topic, 'write');
    IF p_topic LIKE 'bus:%' THEN
        PERFORM door_refuse('invalid_request', format('%L is a topic of the push bus, which takes events alone: publish them with POST /topics/:topic',
                                                      p_topic));
    END IF;
    PERFORM pipeline_judge(p_data, p_tags, p_nodes, p_metas);
    stored := pipeline_store(p_topic, p_writer, p_partition, p_batch, p_expected, p_data, p_tags, p_nodes, p_metas);
    -- The head is locked since, so this is the config of the append.
    IF stored >= p_expected AND EXISTS (SELECT FROM topics_topic WHERE name = p_topic AND numbers = 'double') THEN
        PERFORM door_doubles(p_data, p_metas);
    END IF;
    RETURN stored;
END
$$;
