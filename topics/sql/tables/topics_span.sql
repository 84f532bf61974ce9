-- Few spans cover 1,000 records or more. reclaim_covered finds them by this index.
CREATE INDEX topics_span_long ON topics_span (home_id, home_last_seq) WHERE home_last_seq - home_first_seq >= 1000;
