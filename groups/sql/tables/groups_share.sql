-- A share of a group: the records whose key belongs to this number. `seq` is the share's cursor: its records up to there are
-- done. Each change of the owner raises `generation`, so a commit by an earlier owner finds no row.
--
-- If the share is to move, `next_id` is its next owner. The owner's stream then stops, and writes into `drain_seq` the last seq
-- that it sent. The share moves once its cursor has reached drain_seq. `turn` counts the decisions about the next owner, because
-- a drain_seq of an earlier decision can be too low.
--
-- The sessions have no foreign key: its lock on the member, after the lock on the share, could deadlock. groups_assign finds the
-- shares of sessions that have ended. The space that each page keeps free makes every commit a HOT update.
CREATE TABLE groups_share (
    group_id   bigint  NOT NULL REFERENCES groups_group ON DELETE CASCADE,
    share      integer NOT NULL,
    seq        bigint  NOT NULL,
    generation bigint  NOT NULL DEFAULT 0,
    member_id  bigint,
    next_id    bigint,
    turn       bigint  NOT NULL DEFAULT 0,
    drain_seq  bigint,
    updated_ts bigint  NOT NULL,
    PRIMARY KEY (group_id, share)
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
