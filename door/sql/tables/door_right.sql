-- The rights of a login, or of each member of a role, in the functions of the schema `topics` (door_check). A row grants its scopes for the
-- topics whose names start with the prefix. For a login without a row, its roles alone count. A row without scopes grants nothing, so
-- the last revoke of a login takes everything from it.
CREATE TABLE door_right (
    login  text   NOT NULL COLLATE "C",
    prefix text   NOT NULL COLLATE "C",  -- '': every topic
    scopes text[] NOT NULL,              -- read, write, commit (wire/access/keys.py)
    PRIMARY KEY (login, prefix)
);
