-- Returns whether the rights of the login (door_mine) allow this scope (read, write, commit) for a topic. Without a row, the grants alone
-- count: an owner of the database who grants topics_writer to a login has decided already.
--
-- Names and operators were found when the function was created, because topics.emit_may has the search_path of any caller.
CREATE OR REPLACE FUNCTION door_may(p_topic text, p_scope text) RETURNS boolean
LANGUAGE sql STABLE
RETURN (SELECT count(*) = 0 OR coalesce(bool_or(p_scope = ANY (scopes) AND starts_with(p_topic, prefix)), false) FROM door_mine);
