SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp' AS 'BEGIN END';
CREATE FUNCTION public.pipeline_check(p_topic text, p_topic_id bigint, p_floor bigint, p_first bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.pipeline_create(p_topic text, p_now_ms bigint) RETURNS void
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp' AS 'BEGIN END';
CREATE FUNCTION public.pipeline_loss(p_topic text, p_topic_id bigint, p_from bigint, p_upto bigint) RETURNS text
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.push_batch(p_id bigint, p_lease_ms bigint, p_bytes bigint, OUT verdict text, OUT wait_ms bigint, OUT full_seq bigint, OUT lease bigint, OUT batch_id text, OUT attempt integer, OUT age_ms bigint, OUT callback text, OUT uuid text, OUT dropped bigint, OUT unreadable integer, OUT records text) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan' AS 'BEGIN END';
CREATE FUNCTION public.push_fill(p_queue_id bigint, p_limit bigint, p_now bigint, OUT ordered boolean, OUT queue_head bigint, OUT moved boolean, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan' AS 'BEGIN END';
CREATE FUNCTION public.push_queued(p_queue_id bigint, p_first bigint, p_last bigint) RETURNS TABLE(seq bigint, topic text, data json, size integer)
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.push_settle(p_id bigint, p_lease bigint, p_batch_id text, p_acknowledged boolean, p_status integer, p_error text, p_duration_ms double precision, p_events integer, p_passed integer, p_bytes integer, p_dropped bigint, p_heal integer, p_damage integer, p_max_backoff_ms bigint, OUT held boolean, OUT retry_ms bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan' AS 'BEGIN END';
CREATE FUNCTION public.push_unreadable(p_queue_id bigint, p_first bigint, p_last bigint, OUT seq bigint, OUT reason text) RETURNS record
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.reclaim_chunk(p_topic_id bigint, p_first bigint, p_limit bigint, p_remove boolean, OUT examined bigint, OUT free bigint, OUT last_seq bigint, OUT floor_seq bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off' AS 'BEGIN END';
CREATE FUNCTION public.reclaim_covered(p_home_id bigint, p_first bigint, p_last bigint) RETURNS int8multirange
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.reclaim_stored(p_home_id bigint, p_first bigint, p_last bigint) RETURNS boolean
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.record_json(seq bigint, ts bigint, node text, tag text, meta text, data json, with_tags boolean, with_meta boolean) RETURNS text
    LANGUAGE sql STABLE AS 'BEGIN END';
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.routers_router (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    preserve_node boolean NOT NULL,
    preserve_tag boolean NOT NULL,
    filter_op character varying(4),
    filter_tag text COLLATE pg_catalog."C",
    allow_cycle boolean NOT NULL,
    allow_fan_in boolean NOT NULL,
    cyclic boolean NOT NULL,
    guarantee character varying(16) NOT NULL,
    state character varying(8) NOT NULL,
    last_error text,
    errors_total bigint NOT NULL,
    retry_ts bigint NOT NULL,
    retry_ms bigint NOT NULL,
    retry_bytes bigint,
    created_ts bigint NOT NULL,
    cursor_id bigint NOT NULL,
    dest_id bigint NOT NULL,
    source_id bigint NOT NULL,
    ordered boolean DEFAULT false NOT NULL
);
CREATE FUNCTION public.router_due(router public.routers_router, p_now bigint) RETURNS boolean
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE TABLE public.topics_span (
    topic_id bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    home_id bigint,
    home_first_seq bigint NOT NULL,
    home_last_seq bigint NOT NULL,
    ts bigint NOT NULL,
    shown boolean NOT NULL,
    keep_node boolean NOT NULL,
    keep_tag boolean NOT NULL,
    path text[] NOT NULL,
    stamp_router text COLLATE pg_catalog."C",
    stamp_source text,
    stamp_source_id bigint,
    stamp_first_seq bigint
);
CREATE FUNCTION public.router_fitting(entries public.topics_span[], room_records bigint, room_bytes bigint, OUT upto bigint, OUT rejected bigint) RETURNS record
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.router_forward(p_router_id bigint, p_limit bigint, p_now bigint, p_max_hops integer, OUT forwarded bigint, OUT cursor_seq bigint, OUT blocked text, OUT rejected bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan' AS 'BEGIN END';
CREATE FUNCTION public.router_joined(entries public.topics_span[]) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.router_lose(p_dest_id bigint, p_lost bigint, p_now bigint, p_path text[]) RETURNS void
    LANGUAGE sql AS 'BEGIN END';
CREATE FUNCTION public.router_moved(p_router_id bigint, p_cursor_id bigint, p_forwarded bigint, p_cursor_seq bigint, p_blocked text, p_rejected bigint, p_now bigint) RETURNS void
    LANGUAGE sql AS 'BEGIN END';
CREATE FUNCTION public.router_runs(p_source_id bigint, p_holes_seq bigint, p_told bigint, p_after bigint, p_upto bigint, p_op text, p_tag text, p_max_hops integer) RETURNS TABLE(first_seq bigint, last_seq bigint, home_id bigint, home_first_seq bigint, keep_node boolean, keep_tag boolean, path text[], stamp_router text, stamp_source text, stamp_source_id bigint, stamp_first_seq bigint)
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.router_unheld(entries public.topics_span[], p_dest_id bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.router_unsent(entries public.topics_span[], router public.routers_router, p_floor_seq bigint, p_after bigint, p_upto bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.routers_advance(p_source_id bigint, p_dest_id bigint, p_wait boolean, p_limit bigint, p_now bigint, p_max_hops integer) RETURNS TABLE(dest_id bigint, dest_head bigint, moved boolean, routed boolean, more boolean)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off' AS 'BEGIN END';
CREATE FUNCTION public.span_hide(p_topic_id bigint, p_last_seq bigint, p_home int8multirange, p_lost boolean) RETURNS void
    LANGUAGE sql AS 'BEGIN END';
CREATE FUNCTION public.span_record(span public.topics_span, home_seq bigint, home_node text, home_tag text, home_meta json) RETURNS TABLE(seq bigint, node text, tag text, meta text)
    LANGUAGE sql STABLE ROWS 1 AS 'BEGIN END';
CREATE FUNCTION public.stamped_meta(meta json, router text, source text, source_id bigint, source_seq bigint) RETURNS text
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_append_judged(p_now bigint, p_volatile boolean, p_ids bigint[], p_of bigint[], p_versions bigint[], p_counts bigint[], p_bytes bigint[], p_heads json, p_keys json, p_digests json, p_since bigint[], p_sealed boolean[], p_cap_records bigint[], p_cap_bytes bigint[], p_expired bigint[], p_data json, p_tags json, p_nodes json, p_metas json, p_places bigint[], p_sizes integer[], p_runs bigint[], p_ns bigint[]) RETURNS TABLE(n bigint, verdict text, first_seq bigint, last_seq bigint, head_seq bigint, records bigint, bytes bigint)
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE TABLE public.topics_topichead (
    topic_id bigint NOT NULL,
    head_seq bigint NOT NULL,
    floor_seq bigint NOT NULL,
    cap_lost_seq bigint NOT NULL,
    ttl_lost_seq bigint NOT NULL,
    restart_lost_seq bigint NOT NULL,
    source_lost_seq bigint NOT NULL,
    holes_seq bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    total bigint NOT NULL,
    last_ts bigint NOT NULL,
    last_read_ts bigint NOT NULL,
    version bigint NOT NULL,
    reserved_seq bigint DEFAULT 0 NOT NULL,
    volatile_seq bigint DEFAULT 0 NOT NULL,
    routed boolean DEFAULT false NOT NULL,
    derived boolean DEFAULT false NOT NULL,
    keeps_evidence boolean DEFAULT false NOT NULL,
    recreated_seq bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
CREATE FUNCTION public.topic_as_expired(head public.topics_topichead, p_expired_ts bigint) RETURNS public.topics_topichead
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_delete_below(p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_before_seq bigint) RETURNS TABLE(deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_delete_marked(p_topic_id bigint, p_version bigint, p_expired_ts bigint, p_ns bigint[], p_seqs bigint[], p_sizes integer[]) RETURNS TABLE(n bigint, deleted bigint, earliest_seq bigint, head_seq bigint, count bigint, bytes bigint)
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_delete_match(p_topic_id bigint, p_version bigint, p_before_seq bigint, p_op text, p_tag text, p_tag_end text, p_expired_ts bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_delete_seqs(p_topic_id bigint, p_version bigint, p_seqs bigint[], p_expired_ts bigint) RETURNS bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_diff(p_topic_id bigint, p_version bigint, p_from_seq bigint, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, p_expired_ts bigint, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT head_seq bigint, OUT earliest_seq bigint, OUT lost text, OUT gap_to bigint, OUT lost_from bigint) RETURNS SETOF record
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_diff_with_holes(p_head public.topics_topichead, p_after bigint, p_lost text, p_limit integer, p_nodes text[], p_match_op text, p_match text, p_with_tags boolean, p_with_meta boolean, p_bytes bigint, OUT records text, OUT scanned bigint, OUT next_from_seq bigint, OUT lost text, OUT gap_to bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan' AS 'BEGIN END';
CREATE FUNCTION public.topic_evict(p_topic_id bigint, p_cap_records bigint, p_cap_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_expire(p_topic_id bigint, p_expired_ts bigint) RETURNS bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_extent(p_topic_id bigint, p_first bigint, p_last bigint, p_holes_seq bigint, OUT records bigint, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_first_live(p_topic_id bigint, p_after bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_floor_for(p_topic_id bigint, p_records bigint, p_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_forwarded(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS TABLE(seq bigint, ts bigint, node text, tag text, meta text, data json, size integer, home_id bigint, home_seq bigint, path text[])
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_last_head(p_name text) RETURNS bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_last_live(p_topic_id bigint, p_after bigint, p_upto bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_last_loss(p_topic_id bigint, p_after bigint, p_upto bigint, p_why text) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE TABLE public.topics_deletedtopic (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    deleted_ts bigint NOT NULL
);
CREATE TABLE public.topics_record (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    total bigint NOT NULL,
    size integer NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    volatile boolean DEFAULT false NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json NOT NULL
)
PARTITION BY LIST (volatile);
CREATE TABLE public.topics_topic (
    id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    type character varying(8) NOT NULL,
    ttl_ms bigint NOT NULL,
    cap_records bigint NOT NULL,
    cap_bytes bigint NOT NULL,
    discard character varying(8) NOT NULL,
    durability character varying(12) NOT NULL,
    priority integer,
    auto_priority boolean NOT NULL,
    auto_create boolean NOT NULL,
    idempotency_window_ms bigint NOT NULL,
    dedupe_node boolean NOT NULL,
    lease_ms bigint NOT NULL,
    claim_jitter_ms bigint NOT NULL,
    max_deliveries integer NOT NULL,
    dead_letter character varying(255) COLLATE pg_catalog."C",
    leases_durable boolean NOT NULL,
    created_ts bigint NOT NULL,
    sealed boolean DEFAULT false NOT NULL
);
CREATE VIEW public.topic_log AS
 SELECT t.name AS topic,
    r.seq,
    r.ts,
    r.node,
    r.tag,
    r.meta,
    r.data,
    t.name AS home_topic,
    t.id AS home_topic_id,
    r.seq AS home_seq,
    '{}'::text[] AS path
   FROM ((public.topics_topic t
     JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     JOIN public.topics_record r ON ((r.topic_id = t.id)))
  WHERE ((r.seq > h.floor_seq) AND (NOT r.deleted) AND ((t.ttl_ms = 0) OR ((r.ts)::numeric >= ((EXTRACT(epoch FROM statement_timestamp()) * (1000)::numeric) - (t.ttl_ms)::numeric))))
UNION ALL
 SELECT t.name AS topic,
    record.seq,
    s.ts,
    record.node,
    record.tag,
    (record.meta)::json AS meta,
    r.data,
    COALESCE(home.name, gone.name) AS home_topic,
    s.home_id AS home_topic_id,
    r.seq AS home_seq,
    s.path
   FROM ((((((public.topics_topic t
     JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     JOIN public.topics_span s ON (((s.topic_id = t.id) AND (s.last_seq > h.floor_seq) AND s.shown)))
     JOIN public.topics_record r ON (((r.topic_id = s.home_id) AND (r.seq >= (s.home_first_seq + GREATEST(((h.floor_seq + 1) - s.first_seq), (0)::bigint))) AND (r.seq <= s.home_last_seq))))
     CROSS JOIN LATERAL public.span_record(s.*, r.seq, r.node, r.tag, r.meta) record(seq, node, tag, meta))
     LEFT JOIN public.topics_topic home ON ((home.id = s.home_id)))
     LEFT JOIN public.topics_deletedtopic gone ON ((gone.id = s.home_id)))
  WHERE ((t.ttl_ms = 0) OR ((s.ts)::numeric >= ((EXTRACT(epoch FROM statement_timestamp()) * (1000)::numeric) - (t.ttl_ms)::numeric)));
CREATE FUNCTION public.topic_log_range(p_topic text, p_first bigint, p_last bigint) RETURNS SETOF public.topic_log
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_lost_from(p_topic_id bigint, p_from_seq bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_mark_tagged(p_ids bigint[], p_versions bigint[], p_expired_ts bigint[], p_of bigint[], p_tags text[], p_before_seqs bigint[]) RETURNS TABLE(of_topic bigint, of_version bigint, of_expired_ts bigint, ns bigint[], seqs bigint[], sizes integer[])
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_next_ts(p_topic_id bigint, p_after bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_outdated() RETURNS bigint
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_range_bytes(p_home_id bigint, p_first bigint, p_last bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_reserve(p_head_seq bigint, p_reserved_seq bigint) RETURNS bigint
    LANGUAGE sql AS 'BEGIN END';
CREATE FUNCTION public.topic_seq_at(p_topic_id bigint, p_after bigint, p_head bigint, p_ts bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_seq_of_bytes(p_home_id bigint, p_first bigint, p_last bigint, p_bytes bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_shrink(p_topic_id bigint, p_floor_seq bigint, p_records bigint, p_bytes bigint) RETURNS void
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topic_spans(p_topic_id bigint, p_first bigint, p_last bigint) RETURNS SETOF public.topics_span
    LANGUAGE sql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_stat(p_head public.topics_topichead, p_expired_ts bigint, OUT earliest_seq bigint, OUT records bigint, OUT payload bigint) RETURNS record
    LANGUAGE plpgsql STABLE AS 'BEGIN END';
CREATE FUNCTION public.topic_trim(p_topic_id bigint, p_upto bigint, p_why text, OUT records bigint, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topics_recover() RETURNS void
    LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.topics_skip_reserved() RETURNS void
    LANGUAGE sql AS 'BEGIN END';
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattempt (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    get_data text NOT NULL,
    post_data text NOT NULL,
    failures_since_start integer NOT NULL,
    CONSTRAINT axes_accessattempt_failures_since_start_check CHECK ((failures_since_start >= 0))
);
ALTER TABLE public.axes_accessattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattemptexpiration (
    access_attempt_id integer NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.axes_accessfailurelog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    locked_out boolean NOT NULL
);
ALTER TABLE public.axes_accessfailurelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessfailurelog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accesslog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    logout_time timestamp with time zone,
    session_hash character varying(64) NOT NULL
);
ALTER TABLE public.axes_accesslog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accesslog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.console_count (
    name character varying(40) NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.console_failure (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    task character varying(100) NOT NULL,
    arguments text NOT NULL,
    error text NOT NULL,
    trace text NOT NULL
);
ALTER TABLE public.console_failure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.console_failure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.console_layout (
    key character varying(64) NOT NULL,
    layout text NOT NULL,
    used_ts bigint NOT NULL
);
CREATE TABLE public.console_process (
    id character varying(80) NOT NULL,
    kind character varying(8) NOT NULL,
    host character varying(64) NOT NULL,
    pid integer NOT NULL,
    started_ts bigint NOT NULL,
    seen_ts bigint NOT NULL,
    worked_ts bigint
);
CREATE TABLE public.console_sample (
    kind character varying(6) NOT NULL,
    object_id bigint NOT NULL,
    ts bigint NOT NULL,
    head_seq bigint NOT NULL,
    reads bigint NOT NULL,
    forwarded bigint NOT NULL,
    count bigint NOT NULL,
    bytes bigint NOT NULL,
    lag bigint NOT NULL,
    oldest_ms bigint NOT NULL,
    errors bigint NOT NULL
);
CREATE TABLE public.console_task (
    name character varying(100) NOT NULL,
    runs bigint NOT NULL,
    failures bigint NOT NULL,
    total_ms bigint NOT NULL,
    last_ts bigint NOT NULL,
    last_ms bigint NOT NULL
);
CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_eventstream_event (
    id integer NOT NULL,
    channel character varying(255) NOT NULL,
    type character varying(255) NOT NULL,
    data text NOT NULL,
    eid bigint NOT NULL,
    created timestamp with time zone NOT NULL
);
ALTER TABLE public.django_eventstream_event ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_eventstream_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_eventstream_eventcounter (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    value bigint NOT NULL,
    updated timestamp with time zone NOT NULL
);
ALTER TABLE public.django_eventstream_eventcounter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_eventstream_eventcounter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.pipeline_delay (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    router text NOT NULL COLLATE pg_catalog."C",
    minute_ts bigint NOT NULL,
    bucket integer NOT NULL,
    records bigint NOT NULL
);
ALTER TABLE public.pipeline_delay ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_delay_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_reading (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL,
    upto_seq bigint
);
ALTER TABLE public.pipeline_reading ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_reading_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_rollup (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    minute_ts bigint NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    tag_prefix text NOT NULL COLLATE pg_catalog."C",
    records bigint NOT NULL,
    bytes bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL
);
ALTER TABLE public.pipeline_rollup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_rollup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_run (
    id bigint NOT NULL,
    job character varying(8) NOT NULL,
    options jsonb NOT NULL,
    state character varying(8) NOT NULL,
    started_ts bigint NOT NULL,
    finished_ts bigint,
    read bigint NOT NULL,
    written bigint NOT NULL,
    summary text NOT NULL,
    report jsonb
);
ALTER TABLE public.pipeline_run ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_schedule (
    id bigint NOT NULL,
    job character varying(8) NOT NULL,
    options jsonb NOT NULL,
    every_minutes integer NOT NULL,
    enabled boolean NOT NULL,
    next_ts bigint NOT NULL,
    last_run_id bigint,
    CONSTRAINT pipeline_schedule_every_minutes_check CHECK ((every_minutes >= 0))
);
ALTER TABLE public.pipeline_schedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_staged (
    id bigint NOT NULL,
    reading_id bigint NOT NULL,
    router text,
    minute_ts bigint NOT NULL,
    node text,
    tag_prefix text,
    bucket integer,
    records bigint NOT NULL,
    bytes bigint,
    first_seq bigint,
    last_seq bigint
);
ALTER TABLE public.pipeline_staged ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_staged_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pipeline_written (
    id bigint NOT NULL,
    topic_id bigint NOT NULL,
    writer character varying(255) NOT NULL COLLATE pg_catalog."C",
    partition integer NOT NULL,
    batch bigint NOT NULL,
    records bigint NOT NULL,
    ts bigint NOT NULL
);
ALTER TABLE public.pipeline_written ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pipeline_written_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.push_busclient (
    id bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    token character varying(128) COLLATE pg_catalog."C",
    created_ts bigint NOT NULL,
    deleted_ts bigint,
    token_sha256 bytea
);
ALTER TABLE public.push_busclient ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_busclient_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.push_bustopic (
    name character varying(32) NOT NULL COLLATE pg_catalog."C",
    created_ts bigint NOT NULL,
    publisher_id bigint
);
CREATE TABLE public.push_counter (
    id bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    tags character varying(255) NOT NULL COLLATE pg_catalog."C",
    total double precision NOT NULL,
    reported double precision NOT NULL
);
ALTER TABLE public.push_counter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_counter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.push_delivery (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    batch_id character varying(36) NOT NULL,
    attempt integer NOT NULL,
    status integer,
    error text,
    duration_ms double precision NOT NULL,
    events integer NOT NULL,
    bytes integer NOT NULL,
    subscriber_id bigint NOT NULL
);
ALTER TABLE public.push_delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.push_subscriber (
    client_id bigint NOT NULL,
    queue character varying(255) NOT NULL COLLATE pg_catalog."C",
    callback text NOT NULL,
    uuid text,
    timeout_ms integer NOT NULL,
    max_events integer NOT NULL,
    paused boolean NOT NULL,
    unsubscribed_ts bigint,
    created_ts bigint NOT NULL,
    health integer NOT NULL,
    retry_ts bigint NOT NULL,
    last_error text,
    last_delivery_ts bigint,
    sent_total bigint NOT NULL,
    dropped_total bigint NOT NULL,
    dropped bigint NOT NULL,
    lease bigint NOT NULL,
    leased_until_ts bigint NOT NULL,
    batch_id character varying(36),
    batch_first_seq bigint,
    batch_last_seq bigint,
    batch_attempts integer NOT NULL,
    batch_ts bigint NOT NULL,
    unreadable_total bigint DEFAULT 0 NOT NULL,
    passed_total bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.topics_cursor (
    id bigint NOT NULL,
    kind character varying(12) NOT NULL,
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    forwarded_total bigint NOT NULL,
    updated_ts bigint NOT NULL,
    topic_id bigint NOT NULL
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
CREATE VIEW public.push_queues AS
 SELECT s.client_id,
    t.id AS queue_id,
    place.seq AS cursor_seq,
    h.head_seq,
    (COALESCE(extent.records, (0)::bigint) + COALESCE(coming.records, (0)::bigint)) AS records,
    COALESCE(extent.bytes, (0)::bigint) AS bytes,
    LEAST(public.topic_next_ts(t.id, place.seq), coming.ts) AS oldest_ts
   FROM (((((public.push_subscriber s
     LEFT JOIN public.topics_topic t ON (((t.name)::text = (s.queue)::text)))
     LEFT JOIN public.topics_topichead h ON ((h.topic_id = t.id)))
     LEFT JOIN LATERAL ( SELECT GREATEST(cursor.seq, h.floor_seq) AS seq
           FROM public.topics_cursor cursor
          WHERE ((cursor.topic_id = t.id) AND ((cursor.kind)::text = 'subscription'::text))) place ON (true))
     LEFT JOIN LATERAL public.topic_extent(t.id, (place.seq + 1), h.head_seq, h.holes_seq) extent(records, bytes) ON (true))
     LEFT JOIN LATERAL ( SELECT (sum((source.head_seq - cursor.seq)))::bigint AS records,
            min(public.topic_next_ts(r.source_id, GREATEST(cursor.seq, source.floor_seq))) AS ts
           FROM ((public.routers_router r
             JOIN public.topics_cursor cursor ON ((cursor.id = r.cursor_id)))
             JOIN public.topics_topichead source ON ((source.topic_id = r.source_id)))
          WHERE ((r.dest_id = t.id) AND (cursor.seq < source.head_seq))) coming ON (true));
ALTER TABLE public.routers_router ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.routers_router_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW public.topic_cursors AS
 SELECT topics_cursor.id,
    topics_cursor.topic_id,
    topics_cursor.kind,
    topics_cursor.name,
    topics_cursor.seq,
    topics_cursor.forwarded_total,
    topics_cursor.updated_ts
   FROM public.topics_cursor;
CREATE VIEW public.topic_heads AS
 SELECT topics_topichead.topic_id,
    topics_topichead.head_seq,
    topics_topichead.floor_seq,
    topics_topichead.holes_seq,
    topics_topichead.recreated_seq,
    topics_topichead.reserved_seq,
    topics_topichead.count,
    topics_topichead.bytes,
    topics_topichead.total,
    topics_topichead.last_ts,
    topics_topichead.last_read_ts,
    topics_topichead.version,
    topics_topichead.routed,
    topics_topichead.derived
   FROM public.topics_topichead;
CREATE TABLE public.topics_apikey (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    secret_sha256 bytea NOT NULL,
    read boolean NOT NULL,
    write boolean NOT NULL,
    delete_scope boolean NOT NULL,
    admin boolean NOT NULL,
    prefixes text NOT NULL,
    created_ts bigint NOT NULL,
    last_used_ts bigint,
    revoked_ts bigint,
    expires_ts bigint,
    previous_sha256 bytea,
    previous_until_ts bigint
);
ALTER TABLE public.topics_apikey ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_apikey_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.topics_auditentry (
    id bigint NOT NULL,
    ts bigint NOT NULL,
    actor character varying(100) NOT NULL,
    actor_name character varying(150) NOT NULL,
    origin character varying(64) NOT NULL,
    action character varying(8) NOT NULL,
    kind character varying(8) NOT NULL,
    name character varying(511) NOT NULL COLLATE pg_catalog."C",
    before jsonb,
    after jsonb
);
ALTER TABLE public.topics_auditentry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_auditentry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.topics_clockstep (
    topic_id bigint NOT NULL,
    upto_seq bigint NOT NULL,
    ts bigint NOT NULL,
    until_ts bigint NOT NULL
);
CREATE TABLE public.topics_crashloss (
    topic_id bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL
);
ALTER TABLE public.topics_cursor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_cursor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.topics_idempotencykey (
    key character varying(256) NOT NULL COLLATE pg_catalog."C",
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    ts bigint NOT NULL,
    topic_id bigint NOT NULL,
    digest bytea
);
CREATE TABLE public.topics_lasthead (
    name character varying(255) NOT NULL COLLATE pg_catalog."C",
    head_seq bigint NOT NULL
);
CREATE TABLE public.topics_reclaim (
    topic_id bigint NOT NULL,
    next_seq bigint NOT NULL,
    reclaimed_records bigint NOT NULL,
    held_records bigint NOT NULL,
    updated_ts bigint NOT NULL
);
CREATE TABLE public.topics_record_logged (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    total bigint NOT NULL,
    size integer NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    volatile boolean DEFAULT false NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');
CREATE UNLOGGED TABLE public.topics_record_volatile (
    topic_id bigint NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    total bigint NOT NULL,
    size integer NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    volatile boolean DEFAULT false NOT NULL,
    node text COLLATE pg_catalog."C",
    tag text COLLATE pg_catalog."C",
    meta json,
    data json NOT NULL
);
CREATE UNLOGGED TABLE public.topics_streamcount (
    process character varying(32) NOT NULL,
    key_id character varying(100) NOT NULL,
    count integer NOT NULL,
    seen_ts bigint NOT NULL
);
CREATE UNLOGGED TABLE public.topics_survived (
    alive boolean NOT NULL
);
ALTER TABLE public.topics_topic ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.topics_topic_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.topics_watchsession (
    wid character varying(64) NOT NULL COLLATE pg_catalog."C",
    key_id character varying(100) NOT NULL,
    options text NOT NULL,
    spots text NOT NULL,
    stream bigint NOT NULL,
    open boolean NOT NULL,
    seen_ts bigint NOT NULL,
    created_ts bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');
ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_logged FOR VALUES IN (false);
ALTER TABLE ONLY public.topics_record ATTACH PARTITION public.topics_record_volatile FOR VALUES IN (true);
INSERT INTO public.auth_permission VALUES (1, 'Can add log entry', 1, 'add_logentry');
INSERT INTO public.auth_permission VALUES (2, 'Can change log entry', 1, 'change_logentry');
INSERT INTO public.auth_permission VALUES (3, 'Can delete log entry', 1, 'delete_logentry');
INSERT INTO public.auth_permission VALUES (4, 'Can view log entry', 1, 'view_logentry');
INSERT INTO public.auth_permission VALUES (5, 'Can add permission', 2, 'add_permission');
INSERT INTO public.auth_permission VALUES (6, 'Can change permission', 2, 'change_permission');
INSERT INTO public.auth_permission VALUES (7, 'Can delete permission', 2, 'delete_permission');
INSERT INTO public.auth_permission VALUES (8, 'Can view permission', 2, 'view_permission');
INSERT INTO public.auth_permission VALUES (9, 'Can add group', 3, 'add_group');
INSERT INTO public.auth_permission VALUES (10, 'Can change group', 3, 'change_group');
INSERT INTO public.auth_permission VALUES (11, 'Can delete group', 3, 'delete_group');
INSERT INTO public.auth_permission VALUES (12, 'Can view group', 3, 'view_group');
INSERT INTO public.auth_permission VALUES (13, 'Can add user', 4, 'add_user');
INSERT INTO public.auth_permission VALUES (14, 'Can change user', 4, 'change_user');
INSERT INTO public.auth_permission VALUES (15, 'Can delete user', 4, 'delete_user');
INSERT INTO public.auth_permission VALUES (16, 'Can view user', 4, 'view_user');
INSERT INTO public.auth_permission VALUES (17, 'Can add content type', 5, 'add_contenttype');
INSERT INTO public.auth_permission VALUES (18, 'Can change content type', 5, 'change_contenttype');
INSERT INTO public.auth_permission VALUES (19, 'Can delete content type', 5, 'delete_contenttype');
INSERT INTO public.auth_permission VALUES (20, 'Can view content type', 5, 'view_contenttype');
INSERT INTO public.auth_permission VALUES (21, 'Can add session', 6, 'add_session');
INSERT INTO public.auth_permission VALUES (22, 'Can change session', 6, 'change_session');
INSERT INTO public.auth_permission VALUES (23, 'Can delete session', 6, 'delete_session');
INSERT INTO public.auth_permission VALUES (24, 'Can view session', 6, 'view_session');
INSERT INTO public.auth_permission VALUES (25, 'Can add event', 7, 'add_event');
INSERT INTO public.auth_permission VALUES (26, 'Can change event', 7, 'change_event');
INSERT INTO public.auth_permission VALUES (27, 'Can delete event', 7, 'delete_event');
INSERT INTO public.auth_permission VALUES (28, 'Can view event', 7, 'view_event');
INSERT INTO public.auth_permission VALUES (29, 'Can add event counter', 8, 'add_eventcounter');
INSERT INTO public.auth_permission VALUES (30, 'Can change event counter', 8, 'change_eventcounter');
INSERT INTO public.auth_permission VALUES (31, 'Can delete event counter', 8, 'delete_eventcounter');
INSERT INTO public.auth_permission VALUES (32, 'Can view event counter', 8, 'view_eventcounter');
INSERT INTO public.auth_permission VALUES (33, 'Can add access attempt', 9, 'add_accessattempt');
INSERT INTO public.auth_permission VALUES (34, 'Can change access attempt', 9, 'change_accessattempt');
INSERT INTO public.auth_permission VALUES (35, 'Can delete access attempt', 9, 'delete_accessattempt');
INSERT INTO public.auth_permission VALUES (36, 'Can view access attempt', 9, 'view_accessattempt');
INSERT INTO public.auth_permission VALUES (37, 'Can add access log', 10, 'add_accesslog');
INSERT INTO public.auth_permission VALUES (38, 'Can change access log', 10, 'change_accesslog');
INSERT INTO public.auth_permission VALUES (39, 'Can delete access log', 10, 'delete_accesslog');
INSERT INTO public.auth_permission VALUES (40, 'Can view access log', 10, 'view_accesslog');
INSERT INTO public.auth_permission VALUES (41, 'Can add access failure', 11, 'add_accessfailurelog');
INSERT INTO public.auth_permission VALUES (42, 'Can change access failure', 11, 'change_accessfailurelog');
INSERT INTO public.auth_permission VALUES (43, 'Can delete access failure', 11, 'delete_accessfailurelog');
INSERT INTO public.auth_permission VALUES (44, 'Can view access failure', 11, 'view_accessfailurelog');
INSERT INTO public.auth_permission VALUES (45, 'Can add access attempt expiration', 12, 'add_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (46, 'Can change access attempt expiration', 12, 'change_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (47, 'Can delete access attempt expiration', 12, 'delete_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (48, 'Can view access attempt expiration', 12, 'view_accessattemptexpiration');
INSERT INTO public.auth_permission VALUES (49, 'Can add record', 13, 'add_record');
INSERT INTO public.auth_permission VALUES (50, 'Can change record', 13, 'change_record');
INSERT INTO public.auth_permission VALUES (51, 'Can delete record', 13, 'delete_record');
INSERT INTO public.auth_permission VALUES (52, 'Can view record', 13, 'view_record');
INSERT INTO public.auth_permission VALUES (53, 'Can add API key', 14, 'add_apikey');
INSERT INTO public.auth_permission VALUES (54, 'Can change API key', 14, 'change_apikey');
INSERT INTO public.auth_permission VALUES (55, 'Can delete API key', 14, 'delete_apikey');
INSERT INTO public.auth_permission VALUES (56, 'Can view API key', 14, 'view_apikey');
INSERT INTO public.auth_permission VALUES (57, 'Can add topic', 15, 'add_topic');
INSERT INTO public.auth_permission VALUES (58, 'Can change topic', 15, 'change_topic');
INSERT INTO public.auth_permission VALUES (59, 'Can delete topic', 15, 'delete_topic');
INSERT INTO public.auth_permission VALUES (60, 'Can view topic', 15, 'view_topic');
INSERT INTO public.auth_permission VALUES (61, 'Can add crash loss', 16, 'add_crashloss');
INSERT INTO public.auth_permission VALUES (62, 'Can change crash loss', 16, 'change_crashloss');
INSERT INTO public.auth_permission VALUES (63, 'Can delete crash loss', 16, 'delete_crashloss');
INSERT INTO public.auth_permission VALUES (64, 'Can view crash loss', 16, 'view_crashloss');
INSERT INTO public.auth_permission VALUES (65, 'Can add deleted topic', 17, 'add_deletedtopic');
INSERT INTO public.auth_permission VALUES (66, 'Can change deleted topic', 17, 'change_deletedtopic');
INSERT INTO public.auth_permission VALUES (67, 'Can delete deleted topic', 17, 'delete_deletedtopic');
INSERT INTO public.auth_permission VALUES (68, 'Can view deleted topic', 17, 'view_deletedtopic');
INSERT INTO public.auth_permission VALUES (69, 'Can add last head', 18, 'add_lasthead');
INSERT INTO public.auth_permission VALUES (70, 'Can change last head', 18, 'change_lasthead');
INSERT INTO public.auth_permission VALUES (71, 'Can delete last head', 18, 'delete_lasthead');
INSERT INTO public.auth_permission VALUES (72, 'Can view last head', 18, 'view_lasthead');
INSERT INTO public.auth_permission VALUES (73, 'Can add reclaim', 19, 'add_reclaim');
INSERT INTO public.auth_permission VALUES (74, 'Can change reclaim', 19, 'change_reclaim');
INSERT INTO public.auth_permission VALUES (75, 'Can delete reclaim', 19, 'delete_reclaim');
INSERT INTO public.auth_permission VALUES (76, 'Can view reclaim', 19, 'view_reclaim');
INSERT INTO public.auth_permission VALUES (77, 'Can add stream count', 20, 'add_streamcount');
INSERT INTO public.auth_permission VALUES (78, 'Can change stream count', 20, 'change_streamcount');
INSERT INTO public.auth_permission VALUES (79, 'Can delete stream count', 20, 'delete_streamcount');
INSERT INTO public.auth_permission VALUES (80, 'Can view stream count', 20, 'view_streamcount');
INSERT INTO public.auth_permission VALUES (81, 'Can add watch session', 21, 'add_watchsession');
INSERT INTO public.auth_permission VALUES (82, 'Can change watch session', 21, 'change_watchsession');
INSERT INTO public.auth_permission VALUES (83, 'Can delete watch session', 21, 'delete_watchsession');
INSERT INTO public.auth_permission VALUES (84, 'Can view watch session', 21, 'view_watchsession');
INSERT INTO public.auth_permission VALUES (85, 'Can add audit entry', 22, 'add_auditentry');
INSERT INTO public.auth_permission VALUES (86, 'Can change audit entry', 22, 'change_auditentry');
INSERT INTO public.auth_permission VALUES (87, 'Can delete audit entry', 22, 'delete_auditentry');
INSERT INTO public.auth_permission VALUES (88, 'Can view audit entry', 22, 'view_auditentry');
INSERT INTO public.auth_permission VALUES (89, 'Can add clock step', 23, 'add_clockstep');
INSERT INTO public.auth_permission VALUES (90, 'Can change clock step', 23, 'change_clockstep');
INSERT INTO public.auth_permission VALUES (91, 'Can delete clock step', 23, 'delete_clockstep');
INSERT INTO public.auth_permission VALUES (92, 'Can view clock step', 23, 'view_clockstep');
INSERT INTO public.auth_permission VALUES (93, 'Can add topic head', 24, 'add_topichead');
INSERT INTO public.auth_permission VALUES (94, 'Can change topic head', 24, 'change_topichead');
INSERT INTO public.auth_permission VALUES (95, 'Can delete topic head', 24, 'delete_topichead');
INSERT INTO public.auth_permission VALUES (96, 'Can view topic head', 24, 'view_topichead');
INSERT INTO public.auth_permission VALUES (97, 'Can add span', 25, 'add_span');
INSERT INTO public.auth_permission VALUES (98, 'Can change span', 25, 'change_span');
INSERT INTO public.auth_permission VALUES (99, 'Can delete span', 25, 'delete_span');
INSERT INTO public.auth_permission VALUES (100, 'Can view span', 25, 'view_span');
INSERT INTO public.auth_permission VALUES (101, 'Can add cursor', 26, 'add_cursor');
INSERT INTO public.auth_permission VALUES (102, 'Can change cursor', 26, 'change_cursor');
INSERT INTO public.auth_permission VALUES (103, 'Can delete cursor', 26, 'delete_cursor');
INSERT INTO public.auth_permission VALUES (104, 'Can view cursor', 26, 'view_cursor');
INSERT INTO public.auth_permission VALUES (105, 'Can add idempotency key', 27, 'add_idempotencykey');
INSERT INTO public.auth_permission VALUES (106, 'Can change idempotency key', 27, 'change_idempotencykey');
INSERT INTO public.auth_permission VALUES (107, 'Can delete idempotency key', 27, 'delete_idempotencykey');
INSERT INTO public.auth_permission VALUES (108, 'Can view idempotency key', 27, 'view_idempotencykey');
INSERT INTO public.auth_permission VALUES (109, 'Can add router', 28, 'add_router');
INSERT INTO public.auth_permission VALUES (110, 'Can change router', 28, 'change_router');
INSERT INTO public.auth_permission VALUES (111, 'Can delete router', 28, 'delete_router');
INSERT INTO public.auth_permission VALUES (112, 'Can view router', 28, 'view_router');
INSERT INTO public.auth_permission VALUES (113, 'Can add delay', 29, 'add_delay');
INSERT INTO public.auth_permission VALUES (114, 'Can change delay', 29, 'change_delay');
INSERT INTO public.auth_permission VALUES (115, 'Can delete delay', 29, 'delete_delay');
INSERT INTO public.auth_permission VALUES (116, 'Can view delay', 29, 'view_delay');
INSERT INTO public.auth_permission VALUES (117, 'Can add reading', 30, 'add_reading');
INSERT INTO public.auth_permission VALUES (118, 'Can change reading', 30, 'change_reading');
INSERT INTO public.auth_permission VALUES (119, 'Can delete reading', 30, 'delete_reading');
INSERT INTO public.auth_permission VALUES (120, 'Can view reading', 30, 'view_reading');
INSERT INTO public.auth_permission VALUES (121, 'Can add rollup', 31, 'add_rollup');
INSERT INTO public.auth_permission VALUES (122, 'Can change rollup', 31, 'change_rollup');
INSERT INTO public.auth_permission VALUES (123, 'Can delete rollup', 31, 'delete_rollup');
INSERT INTO public.auth_permission VALUES (124, 'Can view rollup', 31, 'view_rollup');
INSERT INTO public.auth_permission VALUES (125, 'Can add run', 32, 'add_run');
INSERT INTO public.auth_permission VALUES (126, 'Can change run', 32, 'change_run');
INSERT INTO public.auth_permission VALUES (127, 'Can delete run', 32, 'delete_run');
INSERT INTO public.auth_permission VALUES (128, 'Can view run', 32, 'view_run');
INSERT INTO public.auth_permission VALUES (129, 'Can add schedule', 33, 'add_schedule');
INSERT INTO public.auth_permission VALUES (130, 'Can change schedule', 33, 'change_schedule');
INSERT INTO public.auth_permission VALUES (131, 'Can delete schedule', 33, 'delete_schedule');
INSERT INTO public.auth_permission VALUES (132, 'Can view schedule', 33, 'view_schedule');
INSERT INTO public.auth_permission VALUES (133, 'Can add staged', 34, 'add_staged');
INSERT INTO public.auth_permission VALUES (134, 'Can change staged', 34, 'change_staged');
INSERT INTO public.auth_permission VALUES (135, 'Can delete staged', 34, 'delete_staged');
INSERT INTO public.auth_permission VALUES (136, 'Can view staged', 34, 'view_staged');
INSERT INTO public.auth_permission VALUES (137, 'Can add written', 35, 'add_written');
INSERT INTO public.auth_permission VALUES (138, 'Can change written', 35, 'change_written');
INSERT INTO public.auth_permission VALUES (139, 'Can delete written', 35, 'delete_written');
INSERT INTO public.auth_permission VALUES (140, 'Can view written', 35, 'view_written');
INSERT INTO public.auth_permission VALUES (141, 'Can add bus client', 36, 'add_busclient');
INSERT INTO public.auth_permission VALUES (142, 'Can change bus client', 36, 'change_busclient');
INSERT INTO public.auth_permission VALUES (143, 'Can delete bus client', 36, 'delete_busclient');
INSERT INTO public.auth_permission VALUES (144, 'Can view bus client', 36, 'view_busclient');
INSERT INTO public.auth_permission VALUES (145, 'Can add subscriber', 37, 'add_subscriber');
INSERT INTO public.auth_permission VALUES (146, 'Can change subscriber', 37, 'change_subscriber');
INSERT INTO public.auth_permission VALUES (147, 'Can delete subscriber', 37, 'delete_subscriber');
INSERT INTO public.auth_permission VALUES (148, 'Can view subscriber', 37, 'view_subscriber');
INSERT INTO public.auth_permission VALUES (149, 'Can add bus topic', 38, 'add_bustopic');
INSERT INTO public.auth_permission VALUES (150, 'Can change bus topic', 38, 'change_bustopic');
INSERT INTO public.auth_permission VALUES (151, 'Can delete bus topic', 38, 'delete_bustopic');
INSERT INTO public.auth_permission VALUES (152, 'Can view bus topic', 38, 'view_bustopic');
INSERT INTO public.auth_permission VALUES (153, 'Can add counter', 39, 'add_counter');
INSERT INTO public.auth_permission VALUES (154, 'Can change counter', 39, 'change_counter');
INSERT INTO public.auth_permission VALUES (155, 'Can delete counter', 39, 'delete_counter');
INSERT INTO public.auth_permission VALUES (156, 'Can view counter', 39, 'view_counter');
INSERT INTO public.auth_permission VALUES (157, 'Can add delivery', 40, 'add_delivery');
INSERT INTO public.auth_permission VALUES (158, 'Can change delivery', 40, 'change_delivery');
INSERT INTO public.auth_permission VALUES (159, 'Can delete delivery', 40, 'delete_delivery');
INSERT INTO public.auth_permission VALUES (160, 'Can view delivery', 40, 'view_delivery');
INSERT INTO public.auth_permission VALUES (161, 'Can add count', 41, 'add_count');
INSERT INTO public.auth_permission VALUES (162, 'Can change count', 41, 'change_count');
INSERT INTO public.auth_permission VALUES (163, 'Can delete count', 41, 'delete_count');
INSERT INTO public.auth_permission VALUES (164, 'Can view count', 41, 'view_count');
INSERT INTO public.auth_permission VALUES (165, 'Can add layout', 42, 'add_layout');
INSERT INTO public.auth_permission VALUES (166, 'Can change layout', 42, 'change_layout');
INSERT INTO public.auth_permission VALUES (167, 'Can delete layout', 42, 'delete_layout');
INSERT INTO public.auth_permission VALUES (168, 'Can view layout', 42, 'view_layout');
INSERT INTO public.auth_permission VALUES (169, 'May rewind a router, or have it skip records', 42, 'move_router');
INSERT INTO public.auth_permission VALUES (170, 'May append a test record', 42, 'append_record');
INSERT INTO public.auth_permission VALUES (171, 'May download records', 42, 'export_records');
INSERT INTO public.auth_permission VALUES (172, 'Can add task', 43, 'add_task');
INSERT INTO public.auth_permission VALUES (173, 'Can change task', 43, 'change_task');
INSERT INTO public.auth_permission VALUES (174, 'Can delete task', 43, 'delete_task');
INSERT INTO public.auth_permission VALUES (175, 'Can view task', 43, 'view_task');
INSERT INTO public.auth_permission VALUES (176, 'Can add failure', 44, 'add_failure');
INSERT INTO public.auth_permission VALUES (177, 'Can change failure', 44, 'change_failure');
INSERT INTO public.auth_permission VALUES (178, 'Can delete failure', 44, 'delete_failure');
INSERT INTO public.auth_permission VALUES (179, 'Can view failure', 44, 'view_failure');
INSERT INTO public.auth_permission VALUES (180, 'Can add process', 45, 'add_process');
INSERT INTO public.auth_permission VALUES (181, 'Can change process', 45, 'change_process');
INSERT INTO public.auth_permission VALUES (182, 'Can delete process', 45, 'delete_process');
INSERT INTO public.auth_permission VALUES (183, 'Can view process', 45, 'view_process');
INSERT INTO public.auth_permission VALUES (184, 'Can add sample', 46, 'add_sample');
INSERT INTO public.auth_permission VALUES (185, 'Can change sample', 46, 'change_sample');
INSERT INTO public.auth_permission VALUES (186, 'Can delete sample', 46, 'delete_sample');
INSERT INTO public.auth_permission VALUES (187, 'Can view sample', 46, 'view_sample');
INSERT INTO public.django_content_type VALUES (1, 'admin', 'logentry');
INSERT INTO public.django_content_type VALUES (2, 'auth', 'permission');
INSERT INTO public.django_content_type VALUES (3, 'auth', 'group');
INSERT INTO public.django_content_type VALUES (4, 'auth', 'user');
INSERT INTO public.django_content_type VALUES (5, 'contenttypes', 'contenttype');
INSERT INTO public.django_content_type VALUES (6, 'sessions', 'session');
INSERT INTO public.django_content_type VALUES (7, 'django_eventstream', 'event');
INSERT INTO public.django_content_type VALUES (8, 'django_eventstream', 'eventcounter');
INSERT INTO public.django_content_type VALUES (9, 'axes', 'accessattempt');
INSERT INTO public.django_content_type VALUES (10, 'axes', 'accesslog');
INSERT INTO public.django_content_type VALUES (11, 'axes', 'accessfailurelog');
INSERT INTO public.django_content_type VALUES (12, 'axes', 'accessattemptexpiration');
INSERT INTO public.django_content_type VALUES (13, 'topics', 'record');
INSERT INTO public.django_content_type VALUES (14, 'topics', 'apikey');
INSERT INTO public.django_content_type VALUES (15, 'topics', 'topic');
INSERT INTO public.django_content_type VALUES (16, 'topics', 'crashloss');
INSERT INTO public.django_content_type VALUES (17, 'topics', 'deletedtopic');
INSERT INTO public.django_content_type VALUES (18, 'topics', 'lasthead');
INSERT INTO public.django_content_type VALUES (19, 'topics', 'reclaim');
INSERT INTO public.django_content_type VALUES (20, 'topics', 'streamcount');
INSERT INTO public.django_content_type VALUES (21, 'topics', 'watchsession');
INSERT INTO public.django_content_type VALUES (22, 'topics', 'auditentry');
INSERT INTO public.django_content_type VALUES (23, 'topics', 'clockstep');
INSERT INTO public.django_content_type VALUES (24, 'topics', 'topichead');
INSERT INTO public.django_content_type VALUES (25, 'topics', 'span');
INSERT INTO public.django_content_type VALUES (26, 'topics', 'cursor');
INSERT INTO public.django_content_type VALUES (27, 'topics', 'idempotencykey');
INSERT INTO public.django_content_type VALUES (28, 'routers', 'router');
INSERT INTO public.django_content_type VALUES (29, 'pipeline', 'delay');
INSERT INTO public.django_content_type VALUES (30, 'pipeline', 'reading');
INSERT INTO public.django_content_type VALUES (31, 'pipeline', 'rollup');
INSERT INTO public.django_content_type VALUES (32, 'pipeline', 'run');
INSERT INTO public.django_content_type VALUES (33, 'pipeline', 'schedule');
INSERT INTO public.django_content_type VALUES (34, 'pipeline', 'staged');
INSERT INTO public.django_content_type VALUES (35, 'pipeline', 'written');
INSERT INTO public.django_content_type VALUES (36, 'push', 'busclient');
INSERT INTO public.django_content_type VALUES (37, 'push', 'subscriber');
INSERT INTO public.django_content_type VALUES (38, 'push', 'bustopic');
INSERT INTO public.django_content_type VALUES (39, 'push', 'counter');
INSERT INTO public.django_content_type VALUES (40, 'push', 'delivery');
INSERT INTO public.django_content_type VALUES (41, 'console', 'count');
INSERT INTO public.django_content_type VALUES (42, 'console', 'layout');
INSERT INTO public.django_content_type VALUES (43, 'console', 'task');
INSERT INTO public.django_content_type VALUES (44, 'console', 'failure');
INSERT INTO public.django_content_type VALUES (45, 'console', 'process');
INSERT INTO public.django_content_type VALUES (46, 'console', 'sample');
INSERT INTO public.django_migrations VALUES (1, 'contenttypes', '0001_initial', '2026-11-24 18:23:18.626324+00');
INSERT INTO public.django_migrations VALUES (2, 'auth', '0001_initial', '2026-11-24 18:23:18.697903+00');
INSERT INTO public.django_migrations VALUES (3, 'admin', '0001_initial', '2026-11-24 18:23:18.722754+00');
INSERT INTO public.django_migrations VALUES (4, 'admin', '0002_logentry_remove_auto_add', '2026-11-24 18:23:18.73294+00');
INSERT INTO public.django_migrations VALUES (5, 'admin', '0003_logentry_add_action_flag_choices', '2026-11-24 18:23:18.749026+00');
INSERT INTO public.django_migrations VALUES (6, 'contenttypes', '0002_remove_content_type_name', '2026-11-24 18:23:18.784913+00');
INSERT INTO public.django_migrations VALUES (7, 'auth', '0002_alter_permission_name_max_length', '2026-11-24 18:23:18.807677+00');
INSERT INTO public.django_migrations VALUES (8, 'auth', '0003_alter_user_email_max_length', '2026-11-24 18:23:18.823732+00');
INSERT INTO public.django_migrations VALUES (9, 'auth', '0004_alter_user_username_opts', '2026-11-24 18:23:18.83626+00');
INSERT INTO public.django_migrations VALUES (10, 'auth', '0005_alter_user_last_login_null', '2026-11-24 18:23:18.863011+00');
INSERT INTO public.django_migrations VALUES (11, 'auth', '0006_require_contenttypes_0002', '2026-11-24 18:23:18.878763+00');
INSERT INTO public.django_migrations VALUES (12, 'auth', '0007_alter_validators_add_error_messages', '2026-11-24 18:23:18.898149+00');
INSERT INTO public.django_migrations VALUES (13, 'auth', '0008_alter_user_username_max_length', '2026-11-24 18:23:18.925001+00');
INSERT INTO public.django_migrations VALUES (14, 'auth', '0009_alter_user_last_name_max_length', '2026-11-24 18:23:18.960701+00');
INSERT INTO public.django_migrations VALUES (15, 'auth', '0010_alter_group_name_max_length', '2026-11-24 18:23:18.977315+00');
INSERT INTO public.django_migrations VALUES (16, 'auth', '0011_update_proxy_permissions', '2026-11-24 18:23:18.991473+00');
INSERT INTO public.django_migrations VALUES (17, 'auth', '0012_alter_user_first_name_max_length', '2026-11-24 18:23:19.008401+00');
INSERT INTO public.django_migrations VALUES (18, 'axes', '0001_initial', '2026-11-24 18:23:19.017064+00');
INSERT INTO public.django_migrations VALUES (19, 'axes', '0002_auto_20151217_2044', '2026-11-24 18:23:19.067757+00');
INSERT INTO public.django_migrations VALUES (20, 'axes', '0003_auto_20160322_0929', '2026-11-24 18:23:19.13436+00');
INSERT INTO public.django_migrations VALUES (21, 'axes', '0004_auto_20181024_1538', '2026-11-24 18:23:19.209481+00');
INSERT INTO public.django_migrations VALUES (22, 'axes', '0005_remove_accessattempt_trusted', '2026-11-24 18:23:19.22151+00');
INSERT INTO public.django_migrations VALUES (23, 'axes', '0006_remove_accesslog_trusted', '2026-11-24 18:23:19.230359+00');
INSERT INTO public.django_migrations VALUES (24, 'axes', '0007_alter_accessattempt_unique_together', '2026-11-24 18:23:19.260523+00');
INSERT INTO public.django_migrations VALUES (25, 'axes', '0008_accessfailurelog', '2026-11-24 18:23:19.286758+00');
INSERT INTO public.django_migrations VALUES (26, 'axes', '0009_add_session_hash', '2026-11-24 18:23:19.306256+00');
INSERT INTO public.django_migrations VALUES (27, 'axes', '0010_accessattemptexpiration', '2026-11-24 18:23:19.322022+00');
INSERT INTO public.django_migrations VALUES (28, 'console', '0001_tables', '2026-11-24 18:23:19.394547+00');
INSERT INTO public.django_migrations VALUES (29, 'django_eventstream', '0001_initial', '2026-11-24 18:23:19.438811+00');
INSERT INTO public.django_migrations VALUES (30, 'topics', '0001_baseline', '2026-11-24 18:23:19.773284+00');
INSERT INTO public.django_migrations VALUES (31, 'routers', '0001_baseline', '2026-11-24 18:23:19.872123+00');
INSERT INTO public.django_migrations VALUES (32, 'pipeline', '0001_baseline', '2026-11-24 18:23:19.92996+00');
INSERT INTO public.django_migrations VALUES (33, 'push', '0001_baseline', '2026-11-24 18:23:20.008517+00');
INSERT INTO public.django_migrations VALUES (34, 'sessions', '0001_initial', '2026-11-24 18:23:20.020945+00');
INSERT INTO public.topics_survived VALUES (true);
SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 187, true);
SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accessattempt_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accessfailurelog_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accesslog_id_seq', 1, false);
SELECT pg_catalog.setval('public.console_failure_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_admin_log_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 46, true);
SELECT pg_catalog.setval('public.django_eventstream_event_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_eventstream_eventcounter_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_migrations_id_seq', 34, true);
SELECT pg_catalog.setval('public.pipeline_delay_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_reading_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_rollup_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_run_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_schedule_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_staged_id_seq', 1, false);
SELECT pg_catalog.setval('public.pipeline_written_id_seq', 1, false);
SELECT pg_catalog.setval('public.push_busclient_id_seq', 1, false);
SELECT pg_catalog.setval('public.push_counter_id_seq', 1, false);
SELECT pg_catalog.setval('public.push_delivery_id_seq', 1, false);
SELECT pg_catalog.setval('public.routers_router_id_seq', 1, false);
SELECT pg_catalog.setval('public.topics_apikey_id_seq', 1, false);
SELECT pg_catalog.setval('public.topics_auditentry_id_seq', 1, false);
SELECT pg_catalog.setval('public.topics_cursor_id_seq', 1, false);
SELECT pg_catalog.setval('public.topics_topic_id_seq', 1, false);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq UNIQUE (username, ip_address, user_agent);
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptexpiration_pkey PRIMARY KEY (access_attempt_id);
ALTER TABLE ONLY public.axes_accessfailurelog
    ADD CONSTRAINT axes_accessfailurelog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accesslog
    ADD CONSTRAINT axes_accesslog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.console_count
    ADD CONSTRAINT console_count_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.console_failure
    ADD CONSTRAINT console_failure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.console_layout
    ADD CONSTRAINT console_layout_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.console_process
    ADD CONSTRAINT console_process_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.console_sample
    ADD CONSTRAINT console_sample_pkey PRIMARY KEY (kind, object_id, ts);
ALTER TABLE ONLY public.console_task
    ADD CONSTRAINT console_task_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_eventstream_event
    ADD CONSTRAINT django_eventstream_event_channel_eid_20f68a1a_uniq UNIQUE (channel, eid);
ALTER TABLE ONLY public.django_eventstream_event
    ADD CONSTRAINT django_eventstream_event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_eventstream_eventcounter
    ADD CONSTRAINT django_eventstream_eventcounter_name_key UNIQUE (name);
ALTER TABLE ONLY public.django_eventstream_eventcounter
    ADD CONSTRAINT django_eventstream_eventcounter_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.pipeline_delay
    ADD CONSTRAINT pipeline_delay_key UNIQUE (router, topic_id, minute_ts, bucket);
ALTER TABLE ONLY public.pipeline_delay
    ADD CONSTRAINT pipeline_delay_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_reading
    ADD CONSTRAINT pipeline_reading_of_topic UNIQUE (topic_id, name);
ALTER TABLE ONLY public.pipeline_reading
    ADD CONSTRAINT pipeline_reading_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_rollup
    ADD CONSTRAINT pipeline_rollup_key UNIQUE (topic_id, minute_ts, node, tag_prefix);
ALTER TABLE ONLY public.pipeline_rollup
    ADD CONSTRAINT pipeline_rollup_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_run
    ADD CONSTRAINT pipeline_run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_schedule
    ADD CONSTRAINT pipeline_schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_staged
    ADD CONSTRAINT pipeline_staged_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pipeline_written
    ADD CONSTRAINT pipeline_written_by_partition UNIQUE (topic_id, writer, partition);
ALTER TABLE ONLY public.pipeline_written
    ADD CONSTRAINT pipeline_written_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.push_busclient
    ADD CONSTRAINT push_busclient_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.push_busclient
    ADD CONSTRAINT push_busclient_token_key UNIQUE (token);
ALTER TABLE ONLY public.push_bustopic
    ADD CONSTRAINT push_bustopic_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.push_counter
    ADD CONSTRAINT push_counter_name UNIQUE (name, tags);
ALTER TABLE ONLY public.push_counter
    ADD CONSTRAINT push_counter_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.push_delivery
    ADD CONSTRAINT push_delivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_pkey PRIMARY KEY (client_id);
ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_queue_key UNIQUE (queue);
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_cursor_id_key UNIQUE (cursor_id);
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_name_key UNIQUE (name);
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_previous_sha256_key UNIQUE (previous_sha256);
ALTER TABLE ONLY public.topics_apikey
    ADD CONSTRAINT topics_apikey_secret_sha256_key UNIQUE (secret_sha256);
ALTER TABLE ONLY public.topics_auditentry
    ADD CONSTRAINT topics_auditentry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_clockstep
    ADD CONSTRAINT topics_clockstep_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY public.topics_crashloss
    ADD CONSTRAINT topics_crashloss_pkey PRIMARY KEY (topic_id, last_seq);
ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_owner UNIQUE (topic_id, name, kind);
ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_deletedtopic
    ADD CONSTRAINT topics_deletedtopic_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_idempotencykey
    ADD CONSTRAINT topics_idempotencykey_pkey PRIMARY KEY (topic_id, key);
ALTER TABLE ONLY public.topics_lasthead
    ADD CONSTRAINT topics_lasthead_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.topics_reclaim
    ADD CONSTRAINT topics_reclaim_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY public.topics_record
    ADD CONSTRAINT topics_record_pkey PRIMARY KEY (topic_id, seq, volatile);
ALTER TABLE ONLY public.topics_record_logged
    ADD CONSTRAINT topics_record_logged_pkey PRIMARY KEY (topic_id, seq, volatile);
ALTER TABLE ONLY public.topics_record_volatile
    ADD CONSTRAINT topics_record_volatile_pkey PRIMARY KEY (topic_id, seq, volatile);
ALTER TABLE ONLY public.topics_span
    ADD CONSTRAINT topics_span_pkey PRIMARY KEY (topic_id, last_seq);
ALTER TABLE ONLY public.topics_streamcount
    ADD CONSTRAINT topics_streamcount_pkey PRIMARY KEY (process, key_id);
ALTER TABLE ONLY public.topics_survived
    ADD CONSTRAINT topics_survived_pkey PRIMARY KEY (alive);
ALTER TABLE ONLY public.topics_topic
    ADD CONSTRAINT topics_topic_name_key UNIQUE (name);
ALTER TABLE ONLY public.topics_topic
    ADD CONSTRAINT topics_topic_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.topics_topichead
    ADD CONSTRAINT topics_topichead_pkey PRIMARY KEY (topic_id);
ALTER TABLE ONLY public.topics_watchsession
    ADD CONSTRAINT topics_watchsession_pkey PRIMARY KEY (wid);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessattempt_ip_address_10922d9c ON public.axes_accessattempt USING btree (ip_address);
CREATE INDEX axes_accessattempt_user_agent_ad89678b ON public.axes_accessattempt USING btree (user_agent);
CREATE INDEX axes_accessattempt_user_agent_ad89678b_like ON public.axes_accessattempt USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessattempt_username_3f2d4ca0 ON public.axes_accessattempt USING btree (username);
CREATE INDEX axes_accessattempt_username_3f2d4ca0_like ON public.axes_accessattempt USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_ip_address_2e9f5a7f ON public.axes_accessfailurelog USING btree (ip_address);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda ON public.axes_accessfailurelog USING btree (user_agent);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda_like ON public.axes_accessfailurelog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4 ON public.axes_accessfailurelog USING btree (username);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4_like ON public.axes_accessfailurelog USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accesslog_ip_address_86b417e5 ON public.axes_accesslog USING btree (ip_address);
CREATE INDEX axes_accesslog_user_agent_0e659004 ON public.axes_accesslog USING btree (user_agent);
CREATE INDEX axes_accesslog_user_agent_0e659004_like ON public.axes_accesslog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accesslog_username_df93064b ON public.axes_accesslog USING btree (username);
CREATE INDEX axes_accesslog_username_df93064b_like ON public.axes_accesslog USING btree (username varchar_pattern_ops);
CREATE INDEX console_count_name_ea72e9e3_like ON public.console_count USING btree (name varchar_pattern_ops);
CREATE INDEX console_failure_by_age ON public.console_failure USING btree (ts);
CREATE INDEX console_layout_key_7964cd2d_like ON public.console_layout USING btree (key varchar_pattern_ops);
CREATE INDEX console_process_by_kind ON public.console_process USING btree (kind, seen_ts);
CREATE INDEX console_process_id_1a9a0e1b_like ON public.console_process USING btree (id varchar_pattern_ops);
CREATE INDEX console_sample_by_age ON public.console_sample USING btree (ts);
CREATE INDEX console_task_name_40fa919d_like ON public.console_task USING btree (name varchar_pattern_ops);
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);
CREATE INDEX django_eventstream_event_channel_49bacd5e ON public.django_eventstream_event USING btree (channel);
CREATE INDEX django_eventstream_event_channel_49bacd5e_like ON public.django_eventstream_event USING btree (channel varchar_pattern_ops);
CREATE INDEX django_eventstream_event_created_039c5d02 ON public.django_eventstream_event USING btree (created);
CREATE INDEX django_eventstream_event_eid_2da5c1c0 ON public.django_eventstream_event USING btree (eid);
CREATE INDEX django_eventstream_event_type_0e7a664e ON public.django_eventstream_event USING btree (type);
CREATE INDEX django_eventstream_event_type_0e7a664e_like ON public.django_eventstream_event USING btree (type varchar_pattern_ops);
CREATE INDEX django_eventstream_eventcounter_name_3f2f7780_like ON public.django_eventstream_eventcounter USING btree (name varchar_pattern_ops);
CREATE INDEX django_eventstream_eventcounter_updated_0b6f9a25 ON public.django_eventstream_eventcounter USING btree (updated);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX pipeline_run_by_start ON public.pipeline_run USING btree (started_ts DESC);
CREATE INDEX pipeline_schedule_last_run_id_3a6c1115 ON public.pipeline_schedule USING btree (last_run_id);
CREATE INDEX pipeline_staged_by_reading ON public.pipeline_staged USING btree (reading_id);
CREATE INDEX push_busclient_token_fabb25d9_like ON public.push_busclient USING btree (token varchar_pattern_ops);
CREATE INDEX push_bustopic_name_e04f5fae_like ON public.push_bustopic USING btree (name varchar_pattern_ops);
CREATE INDEX push_bustopic_publisher_id_2d2e90f7 ON public.push_bustopic USING btree (publisher_id);
CREATE INDEX push_delivery_by_age ON public.push_delivery USING btree (ts);
CREATE INDEX push_delivery_of_subscriber ON public.push_delivery USING btree (subscriber_id, id);
CREATE INDEX push_subscriber_queue_ddd58958_like ON public.push_subscriber USING btree (queue varchar_pattern_ops);
CREATE INDEX routers_router_dest_id_b18c574d ON public.routers_router USING btree (dest_id);
CREATE INDEX routers_router_name_5aaa9ccd_like ON public.routers_router USING btree (name varchar_pattern_ops);
CREATE INDEX routers_router_source_id_776074a7 ON public.routers_router USING btree (source_id);
CREATE INDEX topics_audit_by_age ON public.topics_auditentry USING btree (ts);
CREATE INDEX topics_audit_by_name ON public.topics_auditentry USING btree (name);
CREATE INDEX topics_idempotency_by_age ON public.topics_idempotencykey USING btree (ts);
CREATE INDEX topics_lasthead_name_531f3780_like ON public.topics_lasthead USING btree (name varchar_pattern_ops);
CREATE INDEX topics_record_by_tag ON ONLY public.topics_record USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);
CREATE INDEX topics_record_deleted ON ONLY public.topics_record USING btree (topic_id, seq) WHERE deleted;
CREATE INDEX topics_record_logged_topic_id_seq_idx ON public.topics_record_logged USING btree (topic_id, seq) WHERE deleted;
CREATE INDEX topics_record_logged_topic_id_tag_seq_idx ON public.topics_record_logged USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);
CREATE INDEX topics_record_volatile_topic_id_seq_idx ON public.topics_record_volatile USING btree (topic_id, seq) WHERE deleted;
CREATE INDEX topics_record_volatile_topic_id_tag_seq_idx ON public.topics_record_volatile USING btree (topic_id, tag, seq) WHERE (tag IS NOT NULL);
CREATE INDEX topics_span_by_home ON public.topics_span USING btree (home_id, home_last_seq);
CREATE INDEX topics_span_by_home_in_topic ON public.topics_span USING btree (home_id, topic_id, home_last_seq);
CREATE INDEX topics_span_by_stamp ON public.topics_span USING btree (topic_id, stamp_router, stamp_source_id, (((stamp_first_seq + last_seq) - first_seq))) WHERE (stamp_router IS NOT NULL);
CREATE INDEX topics_span_long ON public.topics_span USING btree (home_id, home_last_seq) WHERE ((home_last_seq - home_first_seq) >= 1000);
CREATE INDEX topics_span_lost ON public.topics_span USING btree (topic_id, last_seq) WHERE (home_id IS NULL);
CREATE INDEX topics_topic_name_6bb046c1_like ON public.topics_topic USING btree (name varchar_pattern_ops);
CREATE INDEX topics_watchsession_wid_a14954e2_like ON public.topics_watchsession USING btree (wid varchar_pattern_ops);
ALTER INDEX public.topics_record_pkey ATTACH PARTITION public.topics_record_logged_pkey;
ALTER INDEX public.topics_record_deleted ATTACH PARTITION public.topics_record_logged_topic_id_seq_idx;
ALTER INDEX public.topics_record_by_tag ATTACH PARTITION public.topics_record_logged_topic_id_tag_seq_idx;
ALTER INDEX public.topics_record_pkey ATTACH PARTITION public.topics_record_volatile_pkey;
ALTER INDEX public.topics_record_deleted ATTACH PARTITION public.topics_record_volatile_topic_id_seq_idx;
ALTER INDEX public.topics_record_by_tag ATTACH PARTITION public.topics_record_volatile_topic_id_tag_seq_idx;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce FOREIGN KEY (access_attempt_id) REFERENCES public.axes_accessattempt(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.pipeline_schedule
    ADD CONSTRAINT pipeline_schedule_last_run_id_3a6c1115_fk_pipeline_run_id FOREIGN KEY (last_run_id) REFERENCES public.pipeline_run(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.push_bustopic
    ADD CONSTRAINT push_bustopic_publisher_id_2d2e90f7_fk_push_busclient_id FOREIGN KEY (publisher_id) REFERENCES public.push_busclient(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.push_delivery
    ADD CONSTRAINT push_delivery_subscriber_id_c8212fd1_fk_push_subs FOREIGN KEY (subscriber_id) REFERENCES public.push_subscriber(client_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.push_subscriber
    ADD CONSTRAINT push_subscriber_client_id_2640c7bc_fk_push_busclient_id FOREIGN KEY (client_id) REFERENCES public.push_busclient(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_cursor_id_5e229ffc_fk_topics_cursor_id FOREIGN KEY (cursor_id) REFERENCES public.topics_cursor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_dest_id_b18c574d_fk_topics_topic_id FOREIGN KEY (dest_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.routers_router
    ADD CONSTRAINT routers_router_source_id_776074a7_fk_topics_topic_id FOREIGN KEY (source_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.topics_clockstep
    ADD CONSTRAINT topics_clockstep_topic_id_76f96ac7_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.topics_cursor
    ADD CONSTRAINT topics_cursor_topic_id_90c370d6_fk_topics_topic_id FOREIGN KEY (topic_id) REFERENCES public.topics_topic(id) DEFERRABLE INITIALLY DEFERRED;
REVOKE ALL ON FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pipeline_append(p_topic text, p_writer text, p_partition integer, p_batch bigint, p_expected bigint, p_data json, p_tags json, p_nodes json, p_metas json) TO topics_writer;
REVOKE ALL ON FUNCTION public.pipeline_create(p_topic text, p_now_ms bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pipeline_follow(p_topic text, p_cursor text, p_seq bigint) TO topics_writer;
GRANT SELECT ON TABLE public.routers_router TO topics_analyst;
GRANT SELECT ON TABLE public.topics_span TO topics_analyst;
GRANT SELECT ON TABLE public.topics_topichead TO topics_analyst;
GRANT SELECT ON TABLE public.topics_deletedtopic TO topics_analyst;
GRANT SELECT ON TABLE public.topics_record TO topics_analyst;
GRANT SELECT ON TABLE public.topics_topic TO topics_analyst;
GRANT SELECT ON TABLE public.topics_topic TO topics_writer;
GRANT SELECT ON TABLE public.topic_log TO topics_analyst;
GRANT SELECT ON TABLE public.pipeline_written TO topics_writer;
GRANT SELECT ON TABLE public.topics_cursor TO topics_analyst;
GRANT SELECT ON TABLE public.topic_cursors TO topics_analyst;
GRANT SELECT ON TABLE public.topic_heads TO topics_analyst;
GRANT SELECT ON TABLE public.topics_clockstep TO topics_analyst;
GRANT SELECT ON TABLE public.topics_crashloss TO topics_analyst;
