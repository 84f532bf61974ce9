-- Owners of tables whose rows the relay may read for a snapshot, because an operator trusts them (capture_check_snapshot): GRANT
-- topics_snapshot TO somebody.
DO $$
BEGIN
    PERFORM role_made('topics_snapshot');
END
$$;
