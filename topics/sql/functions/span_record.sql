-- What is left of a home record where a topic shows it through a span: its seq there, and the node, tag and meta that the routers
-- on its way let through. Its time is the span's, its data its own.
--
-- One SELECT without FROM: PostgreSQL puts it in line in whatever asks for it, so that it costs no more than its CASEs, and only
-- the columns that somebody wants are computed.
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
