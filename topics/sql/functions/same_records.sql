-- Returns whether an append, or its record at the place p_i of the lists, has the records p_first to p_last, which a kept key names.
-- Called if the two digests are of different kinds: HTTP's have 16 bytes, those of records_digest 32. p_kept is the digest of the key.
-- The lists are those of topic_append_judged, and p_n is the append.
--
-- If HTTP kept the key, the stored records tell. If some of them are gone, the key alone counts, as for a key without a digest.
CREATE OR REPLACE FUNCTION same_records(
    p_topic_id bigint, p_first bigint, p_last bigint, p_kept bytea,
    p_data json, p_tags json, p_nodes json, p_metas json, p_ns bigint[], p_n bigint, p_i bigint DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    sent   bytea := records_digest(p_data, p_tags, p_nodes, p_metas, p_ns, p_n, p_i);
    stored record;
BEGIN
    IF octet_length(p_kept) = octet_length(sent) THEN
        RETURN p_kept = sent;
    END IF;
    SELECT count(*) AS count, json_agg(data ORDER BY seq) AS data, json_agg(tag ORDER BY seq) AS tags,
           json_agg(node ORDER BY seq) AS nodes, json_agg(meta ORDER BY seq) AS metas
      INTO stored
      FROM topics_record
     WHERE topic_id = p_topic_id AND seq BETWEEN p_first AND p_last AND NOT deleted
       AND seq > (SELECT floor_seq FROM topics_topichead WHERE topic_id = p_topic_id LIMIT 1);
    RETURN stored.count <= p_last - p_first
        OR sent = records_digest(stored.data, stored.tags, stored.nodes, stored.metas);
END
$$;
