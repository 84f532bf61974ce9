-- Notes a fact about a write of Spark's: that it has finished (partition -1), or that a repeat has the partitions of an earlier run. A
-- later batch replaces the note of an earlier one, not the other way round. Notes of topics that do not exist are left out.
--
-- It runs with the rights of its owner, so that a login of the role topics_writer can note facts and change no other row. So it
-- asks for the rights of the login first (door_check).
CREATE OR REPLACE FUNCTION pipeline_mark(p_topics text[], p_writer text, p_batch bigint, p_number bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET standard_conforming_strings = on AS $$
    SELECT door_check(topic, 'write') FROM unnest(p_topics) topic;
    INSERT INTO pipeline_written AS w (topic_id, writer, partition, batch, records, ts)
    SELECT id, p_writer, -1, p_batch, p_number, extract(epoch FROM clock_timestamp()) * 1000
      FROM topics_topic WHERE name = ANY (p_topics)
     ORDER BY id
    ON CONFLICT (topic_id, writer, partition) DO UPDATE
       SET batch = excluded.batch, records = excluded.records, ts = excluded.ts
     WHERE w.batch <= excluded.batch;
$$;
