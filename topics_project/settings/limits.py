"""Sizes and caps of what clients may ask for."""

from topics_project.environment import MOST_BYTES, caps, sizes

TOPICS_MAX_BODY_BYTES: int = sizes.number(
    "TOPICS_MAX_BODY_BYTES",
    64 * 1024 * 1024,
    "Body of an append, a copy, a handover of a mirror or an event, also unzipped. Larger: 413. A "
    "[gateway](gateway.md#trouble) can take less",
    least=1,
)
TOPICS_MAX_CALL_BYTES: int = sizes.number(
    "TOPICS_MAX_CALL_BYTES",
    1024 * 1024,
    "Body of any other call, also unzipped. Calls without a key: 64 KiB. A [gateway](gateway.md#trouble) can take less",
    least=1,
)
TOPICS_MAX_RECORDS_PER_APPEND: int = sizes.number(
    "TOPICS_MAX_RECORDS_PER_APPEND", 10_000, "Records of one append", least=1
)
TOPICS_MAX_RECORD_BYTES: int = sizes.number(
    "TOPICS_MAX_RECORD_BYTES", 1024 * 1024, "`data` and `meta` of one record", least=1
)
TOPICS_MAX_META_BYTES: int = sizes.number("TOPICS_MAX_META_BYTES", 16 * 1024, "`meta` of one record", least=2)
TOPICS_MAX_META_KEYS: int = sizes.number("TOPICS_MAX_META_KEYS", 64, "Keys of `meta`")
TOPICS_MAX_TAG_BYTES: int = sizes.number("TOPICS_MAX_TAG_BYTES", 256, "A tag", least=1)
TOPICS_MAX_NODE_BYTES: int = sizes.number("TOPICS_MAX_NODE_BYTES", 128, "A node", least=1)
# Each record is compared with each node.
TOPICS_MAX_NODES: int = sizes.number("TOPICS_MAX_NODES", 1000, "Nodes in one read or watch", least=1)
TOPICS_DIFF_BYTES: int = sizes.number(
    "TOPICS_DIFF_BYTES", 1024 * 1024, "A read or a claim ends here, after at least one record", least=1
)
TOPICS_DIFF_MAX_LIMIT: int = sizes.number(
    "TOPICS_DIFF_MAX_LIMIT", 1000, "Largest `limit` of a read. A higher one is lowered", least=1
)
TOPICS_UPLOAD_LEAST_RATE: int = sizes.number(
    "TOPICS_UPLOAD_LEAST_RATE",
    16 * 1024,
    "Slowest upload of a body, averaged over `TOPICS_UPLOAD_GRACE_MS`. Lower it for slow lines",
    unit="bytes/s",
    least=1,
)
# The average rate of an upload is checked after this time, so stalled uploads do not accumulate. Any phone is faster. A busy
# server that reads slowly itself has 10 seconds to recover.
TOPICS_UPLOAD_GRACE_MS: int = sizes.number(
    "TOPICS_UPLOAD_GRACE_MS", 10_000, "Period over which the rate of an upload is averaged", least=1
)
TOPICS_MAX_TOPICS: int = caps.number("TOPICS_MAX_TOPICS", 100_000, "Topics")
TOPICS_MAX_ROUTERS: int = caps.number("TOPICS_MAX_ROUTERS", 10_000, "Routers")
TOPICS_MAX_TOTAL_BYTES: int = caps.number(
    "TOPICS_MAX_TOTAL_BYTES",
    0,
    "`data` and `meta` of all topics. A value keeps clients from filling the disk",
    most=MOST_BYTES,
)
TOPICS_MAX_WEBHOOKS: int = caps.number("TOPICS_MAX_WEBHOOKS", 10_000, "Webhooks")
TOPICS_MAX_SCHEDULES: int = caps.number("TOPICS_MAX_SCHEDULES", 100_000, "Schedules of queues")
TOPICS_MAX_CURSORS_PER_TOPIC: int = caps.number("TOPICS_MAX_CURSORS_PER_TOPIC", 10_000, "Named cursors of one topic")
TOPICS_MAX_GROUPS: int = caps.number("TOPICS_MAX_GROUPS", 2_000, "Consumer groups. Each has up to 1024 rows of shares")
# Half of the total, so that one key that joins ever new names locks out no other.
TOPICS_MAX_GROUPS_PER_KEY: int = caps.number("TOPICS_MAX_GROUPS_PER_KEY", 1_000, "Consumer groups that one key created")
TOPICS_GROUP_DAYS: int = caps.number(
    "TOPICS_GROUP_DAYS",
    30,
    "Age at which a consumer group without members and commits is deleted. Only days on which a worker process ran "
    "count. 0: never",
)
TOPICS_MAX_WATCH_SESSIONS: int = caps.number(
    "TOPICS_MAX_WATCH_SESSIONS",
    20_000,
    "Watch sessions. At the cap, the oldest sessions without a live stream make room",
)
# Half of the total, so that one client that opens and forgets sessions cannot use up the total. A site has one key for all of its
# pages. At 10,000 page loads a minute, a session without a stream is kept for 30 s beside the most streams. Without keys, an
# address counts like a key, also in the caps of streams and of requests in flight (wire/access/client.py).
TOPICS_MAX_WATCH_SESSIONS_PER_KEY: int = caps.number(
    "TOPICS_MAX_WATCH_SESSIONS_PER_KEY", 10_000, "Watch sessions of one key"
)
TOPICS_MAX_STREAMS: int = caps.number("TOPICS_MAX_STREAMS", 10_000, "Open streams")
TOPICS_MAX_STREAMS_PER_KEY: int = caps.number("TOPICS_MAX_STREAMS_PER_KEY", 5_000, "Open streams of one key")
# Less than the 60 s after which proxies end a connection without bytes. A dead peer's socket ends after two of these.
TOPICS_WS_PING_MS: int = caps.number(
    "TOPICS_WS_PING_MS",
    20_000,
    "Time without a byte from the client of a WebSocket, until the server sends a ping. After a second such time, "
    "the server ends the socket",
    least=100,
)
TOPICS_WS_DEFLATE: bool = caps.flag(
    "TOPICS_WS_DEFLATE",
    False,
    "`1`: a WebSocket is compressed if the client offers `permessage-deflate`. Saves traffic, costs CPU time",
)
TOPICS_MAX_IN_FLIGHT_PER_KEY: int = caps.number(
    "TOPICS_MAX_IN_FLIGHT_PER_KEY", 1_000, "Simultaneous requests of one key in each web process"
)
# Four of the largest bodies per web process. More bodies at once would take memory from all other requests.
TOPICS_MAX_BODIES_BYTES: int = caps.number(
    "TOPICS_MAX_BODIES_BYTES", 256 * 1024 * 1024, "Bodies of simultaneous requests in each web process", most=MOST_BYTES
)
# A process parses 16 MiB in about a tenth of a second, so small requests keep the rest of its time.
TOPICS_LARGE_BODIES_RATE: int = caps.number(
    "TOPICS_LARGE_BODIES_RATE",
    16 * 1024 * 1024,
    "Bodies above 64 KiB in each web process, also unzipped. Keys with such bodies share the rate, and above it "
    "their bodies wait, up to 30 s. Raise it for imports on a large machine",
    unit="bytes/s",
    most=MOST_BYTES,
)
# A stalled reader holds up to 512 KiB. So about 100 stalled readers can resume in each web process without a gap.
TOPICS_MAX_STALLED_BYTES: int = caps.number(
    "TOPICS_MAX_STALLED_BYTES",
    64 * 1024 * 1024,
    "Unread bytes of streams in a web process. Above, the process cuts the streams that stalled longest",
    most=MOST_BYTES,
)
TOPICS_MAX_ROUTER_HOPS: int = caps.number(
    "TOPICS_MAX_ROUTER_HOPS",
    8,
    "Maximum number of routers on a record's path in a cycle. Raise it for a longer ring",
    least=1,
)
TOPICS_WATCH_SESSION_TTL_MS: int = caps.number(
    "TOPICS_WATCH_SESSION_TTL_MS",
    300_000,
    "Life of a watch session after its last stream. Without a stream it expires 30 s after its creation",
    least=1,
)
TOPICS_AUDIT_DAYS: int = caps.number(
    "TOPICS_AUDIT_DAYS", 90, "Age at which entries of the audit log are deleted", least=1
)
