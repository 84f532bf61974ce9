-- The positions of a topic at each of its sites. A site is a topic of the same name on another server, or with `is_here` this topic
-- itself. PostgreSQL deletes the rows with the topic.
--
-- `read_seq` is the last seq of the site's topic that a mirror has handed over (NULL: no mirror reads from there). `origin_seq` is the
-- seq of the last record of the site's own that arrived here, on any way, and `origin_ts` is the `$ts` of this record at the site. The
-- positions change in the transaction that appends the records. So a crash takes back records and positions together, and the topic
-- knows a record that arrives again.
-- If the site lost records before a mirror read them, readers of this topic get a tombstone. `lost` counts the seqs of all these
-- losses. `losses` is a list of the last losses: `lost_seq` is the last seq at the site, and `told_seq` is the last seq of the
-- tombstone in this topic.
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
    losses     jsonb   NOT NULL DEFAULT '[]',
    PRIMARY KEY (topic_id, site)
) WITH (fillfactor = 50);
