-- A consumer group of a topic. PostgreSQL deletes the group with its topic. `start` is the position that its first member asked
-- for, as text. A later member can repeat the same options, and no others.
CREATE TABLE groups_group (
    id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id     bigint  NOT NULL REFERENCES topics_topic ON DELETE CASCADE,
    name         text    COLLATE "C" NOT NULL,
    partition_by text    NOT NULL,
    partitions   integer NOT NULL,
    start        text    NOT NULL,
    created_ts   bigint  NOT NULL,
    key_id       text    NOT NULL DEFAULT '',  -- the holder that created the group, for the cap of groups by key
    idle_hours   integer NOT NULL DEFAULT 0,   -- hours without members and commits so far (groups/upkeep.py)
    counted_ts   bigint  NOT NULL DEFAULT 0,   -- when the last of these hours was counted
    UNIQUE (topic_id, name)
);
