-- The settings that bound a call of the schema `topics`, as the server's last start had them (door/limits.py). topics.emit refuses by
-- them, in the caller's transaction, what an append would refuse. The one row has the defaults before the first start.
CREATE TABLE door_limits (
    id              boolean PRIMARY KEY DEFAULT true CHECK (id),
    max_topics      bigint NOT NULL,  -- 0: no limit, as in max_total_bytes
    max_total_bytes bigint NOT NULL,
    records         bigint NOT NULL,  -- of an append
    record_bytes    bigint NOT NULL,
    meta_bytes      bigint NOT NULL,
    meta_keys       bigint NOT NULL,
    tag_bytes       bigint NOT NULL,
    node_bytes      bigint NOT NULL,
    diff_limit      bigint NOT NULL,  -- records of a read
    diff_bytes      bigint NOT NULL,  -- of a read or a claim
    is_strict       boolean NOT NULL, -- whether a record with an unknown field is refused
    max_cursors     bigint NOT NULL   -- named cursors of a topic. 0: no limit
);
INSERT INTO door_limits VALUES (true, 100000, 0, 10000, 1048576, 16384, 64, 256, 128, 1000, 1048576, true, 10000);
