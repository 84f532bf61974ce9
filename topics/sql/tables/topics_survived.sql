-- This table has one row. A crash of PostgreSQL empties it together with the volatile records. So topics_recover sees that they
-- do not exist any more.
CREATE UNLOGGED TABLE topics_survived (alive boolean PRIMARY KEY);
INSERT INTO topics_survived VALUES (true);
