-- Returns the first record p_first..p_last of a queue whose data PostgreSQL cannot read, with PostgreSQL's reason, or NULL.
-- Examples are a damaged page, or a missing piece of a large value. A lack of memory, a lock or an end of the server does not
-- count: the function raises such an error.
CREATE OR REPLACE FUNCTION push_unreadable(p_queue_id bigint, p_first bigint, p_last bigint, OUT seq bigint, OUT reason text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOR each IN p_first..p_last LOOP
        BEGIN
            PERFORM length(topic || data::text) FROM push_queued(p_queue_id, each, each);
        EXCEPTION WHEN OTHERS THEN
            IF left(SQLSTATE, 2) IN ('40', '53', '55', '57') THEN
                RAISE;
            END IF;
            seq := each;
            reason := SQLERRM;
            RETURN;
        END;
    END LOOP;
END
$$;
