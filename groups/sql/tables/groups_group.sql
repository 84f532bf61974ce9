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
    UNIQUE (topic_id, name)
);
