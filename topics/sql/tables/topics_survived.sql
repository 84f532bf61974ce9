-- This table has one row. A crash of PostgreSQL empties it together with the volatile records. So topics_recover sees that they
-- do not exist any more. `home` says where the database was (topics_home). A restored dump has the row, and another home.
CREATE UNLOGGED TABLE topics_survived (alive boolean PRIMARY KEY);
INSERT INTO topics_survived VALUES (true);
ALTER TABLE topics_survived ADD COLUMN home text;
