"""Finds the records of a topic with a tag, own and forwarded, for the record browser."""

# Own records by the index on the tag. Forwarded records by the same index of their home topics, for the next pieces of the topic.
TAGGED = """
WITH head AS (SELECT floor_seq, head_seq FROM topics_topichead WHERE topic_id = %(id)s),
pieces AS (
    SELECT s.* FROM head CROSS JOIN LATERAL (
        SELECT * FROM topics_span
         WHERE topic_id = %(id)s AND last_seq > floor_seq AND last_seq >= %(first)s AND first_seq <= %(last)s
         ORDER BY last_seq {order} LIMIT {most_spans}) s),
found AS (
    (SELECT seq FROM head CROSS JOIN LATERAL (
         SELECT seq FROM topics_record r
          WHERE topic_id = %(id)s AND tag = %(tag)s AND seq > floor_seq AND seq >= %(first)s AND seq <= %(last)s AND NOT deleted
          ORDER BY seq {order} LIMIT %(limit)s) own)
    UNION ALL
    (SELECT s.first_seq + r.seq - s.home_first_seq FROM head, pieces s CROSS JOIN LATERAL (
         SELECT seq FROM topics_record
          WHERE topic_id = s.home_id AND tag = %(tag)s
            AND seq >= s.home_first_seq + greatest(%(first)s - s.first_seq, head.floor_seq + 1 - s.first_seq, 0)
            AND seq <= s.home_last_seq - greatest(s.last_seq - %(last)s, 0)
          ORDER BY seq {order} LIMIT %(limit)s OFFSET 0) r
      WHERE s.shown AND s.keep_tag)
    ORDER BY seq {order} LIMIT %(limit)s)
SELECT (SELECT array_agg(seq) FROM found), (SELECT count(*) FROM pieces), (SELECT {edge} FROM pieces)
"""
