-- Returns a home record as a topic shows it through a span: its seq in the topic, and the node, tag and meta that the routers
-- on its way keep. Its ts is the span's. Its data is the home record's.
--
-- The body is one SELECT without FROM, so that PostgreSQL inlines it and computes only the columns that a caller reads.
CREATE OR REPLACE FUNCTION span_record(span topics_span, home_seq bigint, home_node text, home_tag text, home_meta json)
RETURNS TABLE (seq bigint, node text, tag text, meta text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT span.first_seq + home_seq - span.home_first_seq,
           CASE WHEN span.keep_node THEN home_node END,
           CASE WHEN span.keep_tag THEN home_tag END,
           CASE WHEN span.stamp_router IS NULL THEN home_meta::text
                ELSE stamped_meta(home_meta, span.stamp_router, span.stamp_source, span.stamp_source_id,
                                  span.stamp_first_seq + home_seq - span.home_first_seq) END
$$;
