-- Returns what topics know of earlier runs of a batch of a writer, and of its later batches: the name of the topic, and the columns of
-- pipeline_written.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can ask and read no table. So it leaves out the topics
-- that the login may not write (door_may).
CREATE OR REPLACE FUNCTION pipeline_earlier(p_writer text, p_batch bigint)
RETURNS TABLE (topic text, partition integer, batch bigint, records bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
    SELECT t.name, w.partition, w.batch, w.records
      FROM pipeline_written w JOIN topics_topic t ON t.id = w.topic_id
     WHERE w.writer = p_writer AND w.batch >= p_batch AND door_may(t.name, 'write')
$$;
