-- Emitted records of topics that cannot take them (outbox_stopped), in their order. Without this table, each look of the relay would
-- read them again.
CREATE TABLE outbox_waiting (
    topic text    COLLATE "C" NOT NULL,
    place bigint  GENERATED ALWAYS AS IDENTITY,
    ts    bigint  NOT NULL,
    size  integer NOT NULL,
    tag   text,
    node  text,
    key   text,
    data  json    NOT NULL,
    meta  json,
    PRIMARY KEY (topic, place)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
