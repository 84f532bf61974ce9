-- Records that topics.emit wrote and the relay has not yet moved to their topics.
--
-- `xid` is the transaction that emitted the record. The relay knows from its last look which transactions it has seen whole, so it
-- reads the primary key behind them, and none of the entries that are dead but stay while some transaction is open. `id` is the
-- order in which the relay moves the records (docs/concurrency.md). `size` is the bytes of `data` and `meta`, `ts` when the record
-- was emitted. The relay alone deletes rows, so only the inserts of other transactions come in between.
CREATE TABLE outbox_emitted (
    xid   xid8    NOT NULL DEFAULT pg_current_xact_id(),
    id    bigint  GENERATED ALWAYS AS IDENTITY,
    ts    bigint  NOT NULL DEFAULT extract(epoch FROM clock_timestamp()) * 1000,
    size  integer NOT NULL,
    topic text    COLLATE "C" NOT NULL,
    tag   text,
    node  text,
    key   text,
    data  json    NOT NULL,
    meta  json,
    PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
-- The relay reads each value once, soon after it was written, so PostgreSQL stores a long one without compressing it.
ALTER TABLE outbox_emitted ALTER COLUMN data SET STORAGE EXTERNAL;
