-- The rows of door_right that limit the login of this session: its own, and those of the roles that it is a member of. A superuser is a
-- member of every role, so the rows of roles do not limit one. The login is the one that connected: SET ROLE changes nothing here.
CREATE OR REPLACE VIEW door_mine AS
SELECT prefix, scopes
  FROM door_right
 WHERE login = session_user
    OR (pg_has_role(session_user, to_regrole(quote_ident(login)), 'MEMBER')
        AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user));
