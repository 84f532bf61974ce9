-- Finds the first p_limit live records after p_after up to p_upto that match, for topic_diff_matches. p_order asc begins at the
-- lowest seq, desc and tail begin at the highest. A record matches if its tag is p_match (p_match_op Eq), or begins with p_match
-- (Glob), or p_match_op is NULL, and its node is none of p_nodes. p_match_end is the first tag above all tags with the prefix, or
-- NULL.
--
-- Returns the records as JSON. `last` is the last examined seq: the last match, if the limit or the byte budget ends the window.
-- The function examines at most p_most own and p_most forwarded records, and a fifth as many spans. If this bound ends the window,
-- scanned_to is `last`, and otherwise NULL.
--
-- Own records, and those at the homes of spans, are found in one of three ways: Eq by the tag's range in the index on tags. Glob by
-- the prefix's whole range in this index, if few records have the prefix. All others by seq. The planner knows neither p_most nor
-- how many records have a tag, so the settings leave it the plans that read each index in its order and stop early.
CREATE OR REPLACE FUNCTION topic_matching(
    p_topic_id bigint, p_after bigint, p_upto bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text,
    p_match_end text, p_order text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_most integer,
    OUT records text, OUT scanned bigint, OUT last bigint, OUT scanned_to bigint
)
LANGUAGE plpgsql STABLE SET enable_sort = off SET enable_bitmapscan = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    few     constant integer := greatest(p_most / 5, 1);
    up      constant boolean := p_order = 'asc';
    way     constant text := CASE WHEN up THEN 'ASC' ELSE 'DESC' END;
    in_tags constant text := format('tag %1$s, seq %1$s', way);
    in_seqs constant text := 'seq ' || way;
    prefix  constant text := CASE WHEN p_match_end IS NULL THEN 'tag >= $6' ELSE 'tag >= $6 AND tag < $7' END;
    reach   bigint;           -- the last span of the range ends here
    pieces  integer := few;   -- spans to examine
    entries bigint;           -- records with the prefix
    within  text := 'seq > %1$s AND seq <= %2$s';  -- the condition on records of a home
    indexed text := in_seqs;  -- the order of the index that this condition uses
    ordered text := in_seqs;  -- the order of the matches
    fits    text := '';       -- the condition on tags that no index answers
    is_full boolean;
    bound   bigint;
BEGIN
    reach := coalesce((SELECT last_seq FROM topics_span WHERE topic_id = p_topic_id AND last_seq >= p_upto ORDER BY last_seq LIMIT 1),
                      p_upto);
    IF p_match_op = 'Glob' AND p_upto - p_after > few THEN
        EXECUTE format(
            'SELECT count(*) FROM (
                 SELECT FROM (SELECT $1 AS id
                              UNION
                              SELECT home_id FROM (SELECT home_id, shown, keep_tag FROM topics_span
                                                    WHERE topic_id = $1 AND last_seq > $2 AND last_seq <= $3
                                                    ORDER BY last_seq %1$s LIMIT $4) piece WHERE shown AND keep_tag) home
                  CROSS JOIN LATERAL (SELECT FROM topics_record WHERE topic_id = home.id AND %2$s ORDER BY tag, seq OFFSET 0) entry
                  LIMIT $4 + 1) entry', way, prefix)
           INTO entries USING p_topic_id, p_after, reach, few, NULL::text, p_match, p_match_end;
    END IF;
    IF p_match_op = 'Eq' THEN  -- with `tag = $6`, PostgreSQL would read the tag's records from the first one on
        within := 'tag IS NOT NULL AND (tag, seq) > ($6, %1$s) AND (tag, seq) <= ($6, %2$s)';
        indexed := in_tags;
        ordered := in_tags;
    ELSIF entries <= few THEN
        within := within || ' AND ' || prefix;
        indexed := in_tags;
        pieces := least(few, 1 + p_most * 4 / (entries + 1));  -- each span reads the whole prefix of its home
    ELSIF p_match_op = 'Glob' THEN
        fits := ' AND starts_with(tag, $6)';
    END IF;

    EXECUTE format(
        -- A part keeps its matches and its last record. The n of this record is $10 if the bound ended the part.
        'WITH pieces AS MATERIALIZED (
             SELECT span, span.* FROM topics_span span
              WHERE topic_id = $1 AND last_seq > $2 AND last_seq <= $4 AND first_seq <= $3 ORDER BY last_seq %1$s LIMIT $5),
         own AS MATERIALIZED (
             SELECT * FROM (
                 SELECT *, row_number() OVER () AS n, lead(seq) OVER () AS following FROM (
                     SELECT NULL::topics_span AS span, seq AS home_seq, seq, ts, node, tag, meta, data, size,
                            NOT deleted AND ($8 IS NULL OR node IS NULL OR node <> ALL ($8)) %6$s AS fits
                       FROM (SELECT * FROM topics_record WHERE topic_id = $1 AND %4$s ORDER BY %2$s OFFSET 0) record
                      ORDER BY %3$s LIMIT $10) record) record
              WHERE fits OR following IS NULL LIMIT $9),
         forwarded AS MATERIALIZED (
             SELECT * FROM (
                 SELECT *, row_number() OVER () AS n, lead(seq) OVER () AS following FROM (
                     SELECT span, home.seq AS home_seq, first_seq + home.seq - home_first_seq AS seq, ts, node, tag, meta, data, size,
                            ($8 IS NULL OR NOT keep_node OR node IS NULL OR node <> ALL ($8)) %6$s AS fits
                       FROM pieces
                      CROSS JOIN LATERAL (
                            SELECT * FROM (SELECT seq, node, tag, meta, data, size FROM topics_record
                                            WHERE topic_id = pieces.home_id AND %5$s ORDER BY %2$s OFFSET 0) record
                             ORDER BY %3$s) home
                      WHERE shown AND (keep_tag OR $14 IS NULL)
                      LIMIT $10) record) record
              WHERE fits OR following IS NULL LIMIT $9),
         bound AS (
             SELECT %7$s(%8$s, (SELECT seq FROM own WHERE n = $10), (SELECT seq FROM forwarded WHERE n = $10),
                         (SELECT %9$s FROM pieces HAVING count(*) = $5)) AS seq),
         found AS (
             SELECT * FROM (SELECT * FROM own UNION ALL SELECT * FROM forwarded) record
              WHERE fits AND seq %10$s (SELECT seq FROM bound) ORDER BY seq %1$s LIMIT $9)
         SELECT string_agg(record_json(seq, ts, shown.node, shown.tag, shown.meta, data, $12, $13), '','' ORDER BY seq %11$s)
                    FILTER (WHERE has_room),
                count(*) = $9 OR bool_and(has_room) IS FALSE, %12$s(seq) FILTER (WHERE has_room), (SELECT seq FROM bound),
                coalesce((SELECT max(n) FROM own), 0) + coalesce((SELECT max(n) FROM forwarded), 0)
           FROM (SELECT *, run <= $11 OR run = size AS has_room  -- the first record always has
                   FROM (SELECT *, sum(size) OVER (ORDER BY seq %1$s ROWS UNBOUNDED PRECEDING) AS run FROM found) record) record
          CROSS JOIN LATERAL (SELECT record.node, record.tag, record.meta::text WHERE (span).topic_id IS NULL
                              UNION ALL
                              SELECT shown.node, shown.tag, shown.meta
                                FROM span_record(span, home_seq, record.node, record.tag, record.meta) shown
                               WHERE (span).topic_id IS NOT NULL) shown',
        way, indexed, ordered, format(within, '$2', '$3'),
        format(within, 'pieces.home_first_seq + greatest($2 - pieces.first_seq, -1)',
                       'pieces.home_last_seq - greatest(pieces.last_seq - $3, 0)'),
        fits,
        CASE WHEN up THEN 'least' ELSE 'greatest' END, CASE WHEN up THEN '$3' ELSE '$2 + 1' END,
        CASE WHEN up THEN 'max(last_seq)' ELSE 'min(first_seq)' END, CASE WHEN up THEN '<=' ELSE '>=' END,
        CASE p_order WHEN 'desc' THEN 'DESC' ELSE 'ASC' END, CASE WHEN up THEN 'max' ELSE 'min' END)
       INTO records, is_full, last, bound, scanned
      USING p_topic_id, p_after, p_upto, reach, pieces, p_match, p_match_end, p_nodes, p_limit, p_most, p_bytes, p_with_tags,
            p_with_meta, p_match_op;
    IF NOT is_full THEN
        last := bound;
        scanned_to := nullif(bound, CASE WHEN up THEN p_upto ELSE p_after + 1 END);
    END IF;
END
$$;
