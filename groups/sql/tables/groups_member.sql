-- A member of a group, from the start of its stream until it leaves, starts another stream, or its session times out. `id` is
-- the session. `seen_ts` is the last moment at which the member was alive, by PostgreSQL's clock.
CREATE TABLE groups_member (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id   bigint NOT NULL REFERENCES groups_group ON DELETE CASCADE,
    name       text   COLLATE "C" NOT NULL,
    session_ms bigint NOT NULL,
    joined_ts  bigint NOT NULL,
    seen_ts    bigint NOT NULL,
    UNIQUE (group_id, name)
) WITH (fillfactor = 50);
