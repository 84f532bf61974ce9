-- What a topic has of a site: a topic of the same name on another server. PostgreSQL deletes the rows with the topic. The row with
-- `is_here` is the topic's own name among the sites.
--
-- A mirror reads the topic of the site, and `read_seq` is the last seq that it has handed over (NULL: no mirror reads from there).
-- `origin_seq` is the last of the site's own records that this topic has got, on any way, and `origin_ts` is its `$ts` there. They
-- change in the transaction that appends the records. So a crash takes back the records and their position together, and a record that arrives again is known.
-- `lost` counts the seqs that the site had lost before a mirror read them.
--
-- The writer holds the head of the topic. The space that each page keeps free makes every change a HOT update.
CREATE TABLE mirrors_site (
    topic_id   bigint  NOT NULL REFERENCES topics_topic ON DELETE CASCADE,
    site       text    COLLATE "C" NOT NULL,
    is_here    boolean NOT NULL,
    origin_seq bigint  NOT NULL,
    origin_ts  bigint,
    read_seq   bigint,
    lost       bigint  NOT NULL,
    lost_ts    bigint,
    updated_ts bigint  NOT NULL,
    PRIMARY KEY (topic_id, site)
) WITH (fillfactor = 50);
