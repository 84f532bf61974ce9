-- The few spans that reach far: see reclaim_covered.
CREATE INDEX routers_span_long ON routers_span (home_id, home_last_seq) WHERE home_last_seq - home_first_seq >= 1000;
