"""The tables of the store. A comment at each constraint and index names its query.

Times are integer milliseconds since the Unix epoch. A topic's id is never reused, and neither are the seqs of a name: a
recreated topic continues above the last head of its name (LastHead).
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Coalesce

from wire.access.keys import NEVER


class Verbatim(models.Field):
    """A PostgreSQL `json` column. Reads return exactly the text that was written."""

    def db_type(self, connection: Any) -> str:
        return "json"

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        return f"{sql}::text", params


class Topic(models.Model):
    """The name and config of a topic. Columns that change with every append are in TopicHead."""

    class Type(models.TextChoices):
        LOG = "log"
        QUEUE = "queue"

    class Discard(models.TextChoices):
        OLD = "old"
        REJECT = "reject"

    class Durability(models.TextChoices):
        FSYNC = "fsync"
        DISK = "disk"
        MEMORY = "memory"
        EPHEMERAL = "ephemeral"

    class Numbers(models.TextChoices):
        ANY = "any"
        DOUBLE = "double"

    id = models.BigAutoField(primary_key=True)
    # Collation "C": names are compared by bytes, and a prefix is a range of the unique index.
    name = models.CharField(max_length=255, unique=True, db_collation="C")
    type = models.CharField(max_length=8, choices=Type, default=Type.LOG)
    ttl_ms = models.BigIntegerField(default=0)
    cap_records = models.BigIntegerField(default=0)
    cap_bytes = models.BigIntegerField(default=0)
    discard = models.CharField(max_length=8, choices=Discard, default=Discard.OLD)
    durability = models.CharField(max_length=12, choices=Durability, default=Durability.DISK)
    priority = models.IntegerField(null=True, blank=True)
    auto_priority = models.BooleanField(default=True)
    auto_create = models.BooleanField(default=True)
    idempotency_window_ms = models.BigIntegerField(default=120_000)
    dedupe_node = models.BooleanField(default=True)
    lease_ms = models.BigIntegerField(default=30_000)
    claim_jitter_ms = models.BigIntegerField(default=0)
    max_deliveries = models.IntegerField(default=0)
    dead_letter = models.CharField(max_length=255, null=True, blank=True, db_collation="C")
    leases_durable = models.BooleanField(default=False)
    # The database has a default for later columns, too: during an upgrade, processes of the version before create topics.
    sealed = models.BooleanField(default=False, db_default=False)
    unique_tags = models.BooleanField(default=False, db_default=False)
    numbers = models.CharField(max_length=8, choices=Numbers, default=Numbers.ANY, db_default=Numbers.ANY)
    created_ts = models.BigIntegerField()

    class Meta:
        indexes = [
            # Finds the queues among all topics, in order of name. With the other columns, a look at all queues reads no topic.
            models.Index(
                fields=["name"],
                include=["id", "dead_letter"],
                name="topics_topic_queues",
                condition=models.Q(type="queue"),
            ),
            # Finds the windows that any topic has.
            models.Index(fields=["idempotency_window_ms"], name="topics_topic_windows"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def volatile(self) -> bool:
        """Whether new records go to the unlogged partition."""
        return self.durability in (self.Durability.MEMORY, self.Durability.EPHEMERAL)


class TopicHead(models.Model):
    """The one hot row of a topic. The row is narrow, and most appends are HOT updates.

    PostgreSQL's primary key is (topic_id, era), so that look-ups meet the newest version first (sql/functions/topic_era.sql).
    `floor_seq + 1` is the first live seq. A seq at or below `*_lost_seq` was lost without a request to delete it. Every seq
    above `holes_seq` is a live, logged record of this topic: no hole, no span. No seq above `reserved_seq` was ever
    visible (sql/functions/topic_reserve.sql). No record above `volatile_seq` is volatile. Seqs up to `recreated_seq` belong to
    deleted topics with the same name; 0 if there was none.
    """

    # Without a constraint: the statement that makes a topic also makes its head, and a delete of the topic holds the head.
    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True, related_name="head", db_constraint=False)
    head_seq = models.BigIntegerField(default=0)
    era = models.BigIntegerField(default=0, db_default=0)
    floor_seq = models.BigIntegerField(default=0)
    cap_lost_seq = models.BigIntegerField(default=0)
    ttl_lost_seq = models.BigIntegerField(default=0)
    restart_lost_seq = models.BigIntegerField(default=0)
    source_lost_seq = models.BigIntegerField(default=0)
    capture_lost_seq = models.BigIntegerField(default=0, db_default=0)
    holes_seq = models.BigIntegerField(default=0)
    count = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)  # payload bytes ever appended. A range's bytes: the difference of two
    last_ts = models.BigIntegerField(
        default=0
    )  # a record's ts is never below it. SET_CLOCKS sets it back (upkeep/retention.py)
    last_read_ts = models.BigIntegerField(default=0)
    version = models.BigIntegerField(default=1)  # of the config: a statement with an old version matches no row
    reserved_seq = models.BigIntegerField(default=0, db_default=0)
    volatile_seq = models.BigIntegerField(default=0, db_default=0)
    recreated_seq = models.BigIntegerField(default=0, db_default=0)
    # The facts about routers that the log needs. Each change of routers writes them here (routers/routers.py, write_on_heads).
    routed = models.BooleanField(default=False, db_default=False)  # routers lead out: an append must wake them
    derived = models.BooleanField(default=False, db_default=False)  # routers lead in: they are advanced before a read
    # A router into the topic is on a cycle: a hidden span must keep its record from coming back.
    keeps_evidence = models.BooleanField(default=False, db_default=False)
    # Reclaim has examined the rows up to here, and found no marked row above. -1: a delete has marked rows since.
    reclaimed_seq = models.BigIntegerField(default=0, db_default=0)
    # What topics_total holds of this topic (sql/functions/topic_totals.sql). counted_seq is -1 for a topic that it does not hold.
    counted_seq = models.BigIntegerField(default=-1, db_default=-1)
    counted_count = models.BigIntegerField(default=0, db_default=0)
    counted_bytes = models.BigIntegerField(default=0, db_default=0)
    # Whether background work may be left for the topic (sql/functions/unsettled_heads.sql). It keeps its value while a topic is
    # written, so the index on it leaves appends HOT. Each statement that changes what it depends on sets it. A generated column
    # would cost an append a tenth of its rate, because PostgreSQL parses its expression again in each statement.
    unsettled = models.BooleanField(default=True, db_default=True)

    class Meta:
        indexes = [
            # Finds the topics with background work.
            models.Index(fields=["topic"], name="topics_head_unsettled", condition=models.Q(unsettled=True)),
        ]


class Total(models.Model):
    """A summand of the number of topics, of their records and of their bytes (sql/functions/topic_totals.sql).

    Each step of counting adds a row, so no two transactions wait for one row. The background merges the rows.
    """

    id = models.BigAutoField(primary_key=True)
    topics = models.BigIntegerField()
    records = models.BigIntegerField()
    bytes = models.BigIntegerField()


class ClockStep(models.Model):
    """The ts of a topic fell at `ts`. Records up to `upto_seq` have a ts of at most `until_ts`. Later records start at
    `ts`.

    sql/functions/topic_seq_at.sql explains what a time means then, and which clock was wrong.
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True)
    upto_seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    until_ts = models.BigIntegerField()


class Expiry(models.Model):
    """When the oldest record of a topic with a TTL expires, or a time before.

    Each topic with a TTL and records has a row, or its head is unsettled (topics/upkeep/unsettled.py). So the background finds
    what is due by index, and an append writes nothing here.
    """

    topic_id = models.BigIntegerField(primary_key=True)
    due_ts = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["due_ts"], name="topics_expiry_due")]


class CrashLoss(models.Model):
    """Seqs first_seq to last_seq of a topic that a crash of PostgreSQL took back. Readers may have seen all but the last.

    Each crash while the topic is written adds a row. The rows stay as long as the topic, because a reader can return at any
    time (sql/functions/topic_lost_from.sql).
    """

    pk = models.CompositePrimaryKey("topic_id", "last_seq")
    topic_id = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    first_seq = models.BigIntegerField()


class Record(models.Model):
    """A record, stored once, under its home: the topic of its append. See sql/tables/topics_record.sql."""

    pk = models.CompositePrimaryKey("topic_id", "seq")
    topic_id = models.BigIntegerField()  # no foreign key: spans may show a record after its topic is deleted
    seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    total = models.BigIntegerField()
    size = models.IntegerField()
    deleted = models.BooleanField(default=False)
    volatile = models.BooleanField(default=False)
    node = models.TextField(null=True)
    tag = models.TextField(null=True)
    meta = Verbatim(null=True)
    data = Verbatim()

    class Meta:
        managed = False
        db_table = "topics_record"


class Span(models.Model):
    """Seqs first_seq to last_seq of a topic are the home's records from home_first_seq on, in order. The records are not copied.

    If `shown` is false, the span is a piece that was deleted here, or a loss. A deleted piece stays, because otherwise a
    cycle could bring the records back. A loss has no home: the source lost these records before a router forwarded them.
    """

    pk = models.CompositePrimaryKey("topic_id", "last_seq")
    topic_id = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    first_seq = models.BigIntegerField()
    home_id = models.BigIntegerField(null=True)  # no foreign key: the home may be deleted
    home_first_seq = models.BigIntegerField()
    home_last_seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    shown = models.BooleanField(default=True)
    keep_node = models.BooleanField(default=True)
    keep_tag = models.BooleanField(default=True)
    path = ArrayField(models.TextField())  # routers on the way: the length is the hop count
    # The stamp of an exactly_once router: the router, its source, and the source's seq of first_seq.
    stamp_router = models.TextField(null=True, db_collation="C")
    stamp_source = models.TextField(null=True)
    stamp_source_id = models.BigIntegerField(null=True)
    stamp_first_seq = models.BigIntegerField(null=True)

    class Meta:
        indexes = [
            # Finds the spans of home records, for reclaim.
            models.Index(fields=["home_id", "home_last_seq"], name="topics_span_by_home"),
            # Finds whether a topic already has a home record, for routers on a cycle.
            models.Index(fields=["home_id", "topic_id", "home_last_seq"], name="topics_span_by_home_in_topic"),
            # Finds the source seqs of an exactly_once router in this topic, by the last seq.
            models.Index(
                "topic_id",
                "stamp_router",
                "stamp_source_id",
                models.F("stamp_first_seq") + models.F("last_seq") - models.F("first_seq"),
                condition=models.Q(stamp_router__isnull=False),
                name="topics_span_by_stamp",
            ),
            # Finds the next loss above a reader's seq.
            models.Index(
                fields=["topic_id", "last_seq"], condition=models.Q(home_id__isnull=True), name="topics_span_lost"
            ),
        ]


class DeletedTopic(models.Model):
    """A deleted topic. Its records are still stored, because spans can show them. Reclaim deletes the row.

    `due_ts` is when reclaim examines the records the next time.
    """

    id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=255, db_collation="C")
    deleted_ts = models.BigIntegerField()
    due_ts = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["due_ts"], name="topics_deletedtopic_due")]


class UpkeepTime(models.Model):
    """When old rows were last deleted by their age (upkeep/past.py). One row."""

    id = models.SmallIntegerField(primary_key=True)
    ts = models.BigIntegerField()


class LastHead(models.Model):
    """The head of the last topic with a name.

    Written when this topic is deleted (delete/topic.py), and read when the next topic with the name is created
    (sql/functions/topic_last_head.sql). The row stays, because a reader can return with an old cursor at any time.
    """

    name = models.CharField(max_length=255, primary_key=True, db_collation="C")
    head_seq = models.BigIntegerField()


class Reclaim(models.Model):
    """The progress of reclaim in a topic, and the number of records that reclaim had to leave."""

    topic_id = models.BigIntegerField(primary_key=True)
    next_seq = models.BigIntegerField(default=0)
    reclaimed_records = models.BigIntegerField(default=0)
    held_records = models.BigIntegerField(default=0)
    updated_ts = models.BigIntegerField(default=0)


class Cursor(models.Model):
    """The position of a reader in a topic: a router, a named consumer, a subscription, a job of the pipeline or a webhook.

    Lag is the topic's head minus `seq`, computed at each call. The row is narrow, and an update of it is HOT.
    """

    class Kind(models.TextChoices):
        NAMED = "named"
        ROUTER = "router"
        SUBSCRIPTION = "subscription"
        PIPELINE = "pipeline"
        WEBHOOK = "webhook"

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="cursors", db_index=False)
    kind = models.CharField(max_length=12, choices=Kind)
    name = models.CharField(max_length=255, db_collation="C")
    seq = models.BigIntegerField(default=0)
    forwarded_total = models.BigIntegerField(default=0)
    updated_ts = models.BigIntegerField()

    class Meta:
        constraints = [
            # Also serves the page of a topic's cursors, in order of name.
            models.UniqueConstraint(fields=["topic", "name", "kind"], name="topics_cursor_owner"),
        ]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """The seqs of the first append with this key, and a digest of its records (append/records.py).

    The digest is null for an append from before digests existed. For such a key, any records count as the same.
    """

    # The key of a client, and `#` with a record's place in a topic that remembers each record by itself.
    MOST_CHARACTERS = 256 + 8

    pk = models.CompositePrimaryKey("topic_id", "key")
    # Without a constraint: an append that keeps a key holds the head, and so does a delete of the topic.
    topic = models.ForeignKey(Topic, models.CASCADE, db_index=False, db_constraint=False)
    key = models.CharField(max_length=MOST_CHARACTERS, db_collation="C")
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    digest = models.BinaryField(max_length=16, null=True)

    class Meta:
        indexes = [models.Index(fields=["ts"], name="topics_idempotency_by_age")]  # the sweep of old keys


class WatchSession(models.Model):
    """A watch session (watch/sessions.py): the options of its client, and the positions of its stream, as JSON."""

    wid = models.CharField(primary_key=True, max_length=64, db_collation="C")
    key_id = models.CharField(max_length=100)  # the holder: without keys, the client's address
    options = models.TextField()
    spots = models.TextField()
    stream = models.BigIntegerField(default=0)  # number of streams so far; only the latest may move the session
    open = models.BooleanField(default=False)
    seen_ts = models.BigIntegerField()
    created_ts = models.BigIntegerField()


class StreamCount(models.Model):
    """The number of streams that a process has open for a key, at most a second old. Unlogged, because a crash ends the
    streams."""

    pk = models.CompositePrimaryKey("process", "key_id")
    process = models.CharField(max_length=32)
    key_id = models.CharField(max_length=100)  # the holder, as in WatchSession
    count = models.IntegerField()
    seen_ts = models.BigIntegerField()


class ApiKey(models.Model):
    """A key that was made in the admin. Only the SHA-256 of its secret is stored (docs/security.md)."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100)
    secret_sha256 = models.BinaryField(max_length=32, unique=True, editable=False)
    read = models.BooleanField(default=True)
    write = models.BooleanField(default=False)
    commit = models.BooleanField(default=False, db_default=False)
    delete_scope = models.BooleanField("delete", default=False)
    webhooks = models.BooleanField(default=False, db_default=False)
    admin = models.BooleanField(default=False)
    prefixes = models.TextField(blank=True, default="", help_text="One name prefix a line. Empty: every name.")
    created_ts = models.BigIntegerField()
    expires_ts = models.BigIntegerField(null=True, blank=True)  # the key is invalid from this time on
    # The previous secret. Until this time both secrets work, and clients can change without a gap.
    previous_sha256 = models.BinaryField(max_length=32, unique=True, null=True, editable=False)
    previous_until_ts = models.BigIntegerField(null=True, editable=False)
    last_used_ts = models.BigIntegerField(null=True, blank=True)
    revoked_ts = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        # Finds the valid keys (wire/access/keys.py).
        indexes = [
            models.Index(
                Coalesce("expires_ts", NEVER), name="topics_apikey_valid", condition=models.Q(revoked_ts__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return self.name


class AuditEntry(models.Model):
    """One change or delete with its author, written in the transaction of the change (audit.py).

    `before` and `after` have the fields that differ.
    """

    id = models.BigAutoField(primary_key=True)
    ts = models.BigIntegerField()
    actor = models.CharField(max_length=100)  # a key's id, or "user:" and an id
    actor_name = models.CharField(max_length=150, blank=True)
    origin = models.CharField(max_length=64, blank=True)  # address of the client
    action = models.CharField(max_length=8)
    kind = models.CharField(max_length=8)
    name = models.CharField(max_length=511, db_collation="C")  # of a cursor, a group or a schedule: topic/name
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["ts"], name="topics_audit_by_age"),  # the sweep of old entries
            models.Index(fields=["name"], name="topics_audit_by_name"),  # the admin's search
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.kind} {self.name}"
