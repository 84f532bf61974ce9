"""The texts of docs/settings.md: the meaning of each setting and when to change the setting.

Default, bounds and secrecy come from the declaration in topics_project/settings.py (`environment.DEFAULTS`, `BOUNDS`,
`SECRETS`). `page` joins both. A setting without text, or a text without a setting, raises KeyError.
"""

from collections.abc import Iterator
from typing import Any

from topics_project.environment import BOUNDS, DEFAULTS, MOST, MOST_BYTES, SECRETS

HEAD = """\
# Settings

For operators: every setting, with default, values, and reasons to change.

All settings are environment variables. The server refuses to start with an invalid value or an unknown `TOPICS_…` name, and says
in one line what to change. A secret can come from a file, for example `SECRET_KEY_FILE=/run/secrets/secret_key`.

A flag takes `1` or `0`. A list has commas between its entries. `_MS`, `_SECONDS`, `_DAYS` and `_BYTES` in a name are its unit.
Without an upper bound in its row, it is 2,147,483,647, or 2^62 for caps of bytes.
"""

# The unit of a setting, and the end of the setting's name.
UNITS = {"ms": "_MS", "s": "_SECONDS", "days": "_DAYS", "bytes": "_BYTES"}

# Defaults that depend on the machine or on other settings.
COMPUTED = {
    "TOPICS_DATA": "`.data` beside `manage.py`, or, installed, `~/.local/share/topics`",
    "TOPICS_POSTGRESQL": "searched",
    "TOPICS_REDIS": "searched",
    "DATABASE_URL": "the embedded server",
    "REDIS_URL": "the embedded server",
    "SECRET_KEY": "generated for the embedded servers",
    "TOPICS_REDIS_PREFIX": "`topics:` and a digest of `SECRET_KEY`",
    "WEB_WORKERS": "cores, at most 4",
    "FORCE_SSL": "`0` on loopback, else `1`",
}

# Sentences that hold for each setting of a group. A group without reasons to change in its rows names the reason here.
NOTES = {
    "Timeouts of PostgreSQL": "After a timeout a request gets 503. `0`, if a row allows it: no limit.",
    "Sizes of requests and reads": (
        "Change a size if your clients need more. A request above one of these sizes gets 400, unless the row says otherwise."
    ),
    "Caps": (
        "Above a cap a request gets 429, unless the row says otherwise. `0`, if a row allows it: no limit. Change a cap if your "
        "clients reach it."
    ),
}

# Group: {setting: (values if the declaration lacks them, meaning, when to change)}.
GROUPS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Address and data": {
        "HOST": (
            "address",
            "Address to listen on. An address beyond loopback needs API keys",
            "others have to reach the port",
        ),
        "PORT": ("", "Port to listen on", "the port is taken"),
        "TOPICS_DATA": ("folder", "Data of the embedded servers, logs, generated secrets", "you run a second instance"),
        "TOPICS_POSTGRESQL": (
            "folder",
            "Programs of the embedded PostgreSQL, 14 or later. Searched on `PATH`, in `/usr/lib/postgresql/`, then in the wheel",
            "the wrong version is found",
        ),
        "TOPICS_REDIS": (
            "path",
            "`redis-server` or `valkey-server` to embed, 6.2 or later. Searched on `PATH`, then in the wheel",
            "the wrong version is found",
        ),
        "DATABASE_URL": ("", "PostgreSQL. A connection string of libpq", "you have a PostgreSQL"),
        "DATABASE_PASSWORD": ("", "Password for `DATABASE_URL`, if the URL has none", "the password lies in a file"),
        "REDIS_URL": ("", "`redis://…` or `rediss://…`", "you have a Redis"),
        "TOPICS_REDIS_PREFIX": (
            "text",
            "The beginning of all keys, queues and channels in Redis, 1 to 64 characters",
            "sites with one `SECRET_KEY` share a Redis",
        ),
    },
    "Keys, hosts and TLS": {
        "SECRET_KEY": (
            "",
            "Signs sessions. At least 50 random characters, the same for all processes of a site",
            "you use your own servers",
        ),
        "TOPICS_API_KEYS": (
            "",
            "API keys as a list of `secret:scopes` or `secret:scopes:prefixes`. `+` joins the scopes `read`, `write`, `commit`, "
            "`delete`, `webhooks`, `admin`, a vertical bar joins prefixes. Beyond loopback a secret needs 16 characters",
            "you want the [first key](security.md#the-first-key) before the admin is up",
        ),
        "TOPICS_INSECURE": ("", "`1`: listen beyond loopback without keys", "the network itself is trusted"),
        "TOPICS_ADMIN_PASSWORD": (
            "",
            "Password of the user `admin`, who is created at the start if no admin exists. `make run` generates a password",
            "you use your own servers",
        ),
        "TOPICS_LOGIN_FAILURES": (
            "",
            "Failed admin logins before an address is locked out",
            "users lock themselves out",
        ),
        "TOPICS_LOGIN_LOCK_SECONDS": ("s", "Length of the lockout", "users lock themselves out"),
        "ALLOWED_HOSTS": (
            "list",
            "Host names that the server answers to. `.example.org` includes subdomains, `*` is any name. If unset, `HOST` is "
            "added. `/v0/health` and `/v0/ready` answer to any name",
            "clients use another name than `localhost`",
        ),
        "TOPICS_TLS_PROXY": (
            "",
            "`1`: one [proxy](deploy.md#tls-and-proxies) ends TLS, sets `X-Forwarded-Proto`, appends to `X-Forwarded-For`, and "
            "is the only way in. Needs `ALLOWED_HOSTS`",
            "a TLS proxy stands in front",
        ),
        "CSRF_TRUSTED_ORIGINS": (
            "list",
            "`https://…` origins of a proxy in front of the admin",
            "logins fail with 403",
        ),
        "CORS_ALLOWED_ORIGINS": (
            "list",
            "Origins whose pages may call `/v0` from a browser, streams included. The server's own origin needs no entry",
            "pages come from another origin",
        ),
        "DEBUG": ("", "Django's error pages. Refused beyond loopback and with a TLS proxy", "you develop topics"),
    },
    "Processes": {
        "WEB_WORKERS": ("", "Web processes", "cores are idle or connections run out"),
        "WEB_THREADS": ("", "Threads of each web process for calls through Django", "many admin pages are open"),
        "WORKER_PROCESSES": ("", "Processes of the Celery worker", "routers lag"),
        "TOPICS_PROCESSES": (
            "list of `worker`, `push`, `beat`",
            "Processes that `manage.py run` starts beside the web server. Without `push`, no callback is called",
            "another host runs them",
        ),
        "TOPICS_FROZEN_SECONDS": (
            "s",
            "`manage.py run` replaces a process that gave no heartbeat for this time (Linux). `0`: never",
            "you debug a process",
        ),
        "TOPICS_LOG": (
            "`off`, `text` or `json`",
            "Whether the log has a line for each request. `json`: all lines of the log are JSON objects",
            "a program collects the log",
        ),
        "TOPICS_SLOW_MS": (
            "ms",
            "A call that takes longer is logged, with the parts of its time. `0`: none",
            "calls are slow",
        ),
        "TOPICS_TRACE_RECORDS": (
            "",
            "`1`: the records of an append keep a sampled `traceparent` in `meta`, for readers and callbacks",
            "consumers trace ([monitor](guides/monitoring.md#traces))",
        ),
        "TOPICS_STRICT": (
            "",
            "`1`: unknown fields of a body or query are refused. `0`: ignored, except in calls that delete",
            "you cannot change a client",
        ),
    },
    "Timeouts of PostgreSQL": {
        "TOPICS_LOCK_TIMEOUT_MS": (
            "ms",
            "Longest wait of a request for a lock",
            "large deletes run",
        ),
        "TOPICS_IDLE_TRANSACTION_TIMEOUT_MS": (
            "ms",
            "PostgreSQL undoes a write after this silence of its process",
            "the machine is very slow",
        ),
        "TOPICS_STATEMENT_TIMEOUT_MS": (
            "ms",
            "Longest statement of a request through Django",
            "large deletes get 503",
        ),
        "TOPICS_WORKER_STATEMENT_TIMEOUT_MS": (
            "ms",
            "Longest statement of a worker",
            "upkeep is cut off",
        ),
        "TOPICS_ANSWER_TIMEOUT_MS": (
            "ms",
            "Longest statement of a request through the event loop, as most go",
            "PostgreSQL is slow",
        ),
        "TOPICS_CONNECT_TIMEOUT_MS": ("ms", "Longest wait for a new connection", "PostgreSQL is far away"),
        "TOPICS_TCP_TIMEOUT_MS": ("ms", "Time after which a silent network counts as broken", "the network has pauses"),
        "TOPICS_IDLE_CONNECTION_SECONDS": (
            "s",
            "A connection without use is closed after this time",
            "connections are scarce",
        ),
    },
    "Sizes of requests and reads": {
        "TOPICS_MAX_BODY_BYTES": (
            "bytes",
            "Body of an append, a copy, a handover of a mirror or an event, also unzipped. Larger: 413",
            "",
        ),
        "TOPICS_MAX_CALL_BYTES": ("bytes", "Body of any other call, also unzipped. Calls without a key: 64 KiB", ""),
        "TOPICS_MAX_RECORDS_PER_APPEND": ("", "Records of one append", ""),
        "TOPICS_MAX_RECORD_BYTES": ("bytes", "`data` and `meta` of one record", ""),
        "TOPICS_MAX_META_BYTES": ("bytes", "`meta` of one record", ""),
        "TOPICS_MAX_META_KEYS": ("", "Keys of `meta`", ""),
        "TOPICS_MAX_TAG_BYTES": ("bytes", "A tag", ""),
        "TOPICS_MAX_NODE_BYTES": ("bytes", "A node", ""),
        "TOPICS_MAX_NODES": ("", "Nodes in one read or watch", ""),
        "TOPICS_DIFF_BYTES": ("bytes", "A read or a claim ends here, after at least one record", ""),
        "TOPICS_DIFF_MAX_LIMIT": ("", "Largest `limit` of a read. A higher one is lowered", ""),
        "TOPICS_UPLOAD_LEAST_RATE": (
            "bytes/s",
            "Slowest upload of a body, averaged over `TOPICS_UPLOAD_GRACE_MS`. Lower it for slow lines",
            "",
        ),
        "TOPICS_UPLOAD_GRACE_MS": ("ms", "Period over which the rate of an upload is averaged", ""),
    },
    "Caps": {
        "TOPICS_MAX_TOPICS": ("", "Topics", ""),
        "TOPICS_MAX_ROUTERS": ("", "Routers", ""),
        "TOPICS_MAX_TOTAL_BYTES": (
            "bytes",
            "`data` and `meta` of all topics. A value keeps clients from filling the disk",
            "",
        ),
        "TOPICS_MAX_WEBHOOKS": ("", "Webhooks", ""),
        "TOPICS_MAX_SCHEDULES": ("", "Schedules of queues", ""),
        "TOPICS_MAX_GROUPS": ("", "Consumer groups. Each has up to 1024 rows of shares", ""),
        "TOPICS_MAX_GROUPS_PER_KEY": ("", "Consumer groups that one key created", ""),
        "TOPICS_GROUP_DAYS": (
            "days",
            "Age at which a consumer group without members and commits is deleted. Only days on which a worker process ran count."
            " 0: never",
            "",
        ),
        "TOPICS_MAX_WATCH_SESSIONS": (
            "",
            "Watch sessions. At the cap, the oldest sessions without a live stream make room",
            "",
        ),
        "TOPICS_MAX_WATCH_SESSIONS_PER_KEY": ("", "Watch sessions of one key", ""),
        "TOPICS_MAX_STREAMS": ("", "Open streams", ""),
        "TOPICS_MAX_STREAMS_PER_KEY": ("", "Open streams of one key", ""),
        "TOPICS_WS_PING_MS": (
            "ms",
            "Time without a byte from the client of a WebSocket, until the server sends a ping. After a second such time, the"
            " server ends the socket",
            "",
        ),
        "TOPICS_WS_DEFLATE": (
            "",
            "`1`: a WebSocket is compressed if the client offers `permessage-deflate`. Saves traffic, costs CPU time",
            "",
        ),
        "TOPICS_MAX_IN_FLIGHT_PER_KEY": ("", "Simultaneous requests of one key in each web process", ""),
        "TOPICS_MAX_BODIES_BYTES": ("bytes", "Bodies of simultaneous requests in each web process", ""),
        "TOPICS_LARGE_BODIES_RATE": (
            "bytes/s",
            "Bodies above 64 KiB in each web process, also unzipped. Keys with such bodies share the rate, and above it their"
            " bodies wait, up to 30 s. Raise it for imports on a large machine",
            "",
        ),
        "TOPICS_MAX_STALLED_BYTES": (
            "bytes",
            "Unread bytes of streams in a web process. Above, the process cuts the streams that stalled longest",
            "",
        ),
        "TOPICS_MAX_ROUTER_HOPS": (
            "",
            "Maximum number of routers on a record's path in a cycle. Raise it for a longer ring",
            "",
        ),
        "TOPICS_WATCH_SESSION_TTL_MS": (
            "ms",
            "Life of a watch session after its last stream. Without a stream it expires 30 s after its creation",
            "",
        ),
        "TOPICS_AUDIT_DAYS": ("days", "Age at which entries of the audit log are deleted", ""),
    },
    "Push bus": {
        "ROUTEMASTER_ROOT_KEY": (
            "",
            "Manages the tokens. Without it, no client can. Beyond loopback it needs 16 characters",
            "you use the push bus",
        ),
        "ROUTEMASTER_CLIENTS": (
            "",
            "Tokens that each start creates: `NAME--…` for the client `NAME`. To delete a token, remove it here, too",
            "tokens come from your deployment",
        ),
        "ROUTEMASTER_UNKNOWN_TOPICS": (
            "`accept`, `reject`",
            "Subscription to a topic without a publisher: accept it, or answer 404",
            "such a subscription is a mistake",
        ),
        "TOPICS_BUS_DURABILITY": (
            "`disk`, `fsync`",
            "[Durability](guarantees.md#durability) of published events",
            "no acknowledged event may be lost",
        ),
        "FORCE_SSL": ("flag", "`1`: plain requests for the bus get 308 to `https://`", "TLS in front is missing"),
        "ROUTEMASTER_MAX_EVENT_DATA": (
            "bytes",
            "MessagePack bytes of an event's `data`. `0`: as large as a record",
            "subscribers want small events",
        ),
        "ROUTEMASTER_HP_DAMAGE_RATE": (
            "",
            "Health points for a failed delivery, of 100",
            "callbacks often fail briefly",
        ),
        "ROUTEMASTER_HP_HEAL_RATE": ("", "Health points for an acknowledged delivery", "callbacks recover too slowly"),
        "MAX_BACKOFF_MS": (
            "ms",
            "[Pause](push.md#health) after a failure at 0 health points",
            "failing callbacks need longer pauses",
        ),
        "ROUTEMASTER_MIN_BACKOFF_MS": (
            "ms",
            "Shortest [pause](push.md#health) after a failure, at most `MAX_BACKOFF_MS`",
            "a failing callback may be called more often",
        ),
        "ROUTEMASTER_CONNECT_TIMEOUT": ("s", "Longest wait for a connection to a callback", "callbacks are far away"),
        "ROUTEMASTER_TIMEOUT": ("s", "Longest wait for a callback's status and headers", "callbacks work for longer"),
        "ROUTEMASTER_SSL_VERIFY": ("", "`0`: accept any certificate of a callback", "you try out callbacks"),
        "PUSH_CALLBACK_DENY": (
            "list of networks",
            "Networks that no callback may reach, by default link-local addresses and metadata addresses of clouds",
            "your network has more to protect",
        ),
        "PUSH_CALLBACK_LOOPBACK_HTTP": ("", "`1`: allow `http://` callbacks to this machine", "you try out the bus"),
        "PUSH_CALLBACK_CA": (
            "file",
            "Certificates (PEM) to trust for callbacks, besides the system's",
            "you have your own CA",
        ),
        "PUSH_CALLBACKS_AT_ONCE": ("", "Callbacks that a process waits for at once", "many callbacks are slow"),
        "PUSH_SLOW_MS": (
            "ms",
            "A slower callback counts as failing, even if it acknowledges",
            "callbacks work for longer",
        ),
        "PUSH_LOG_DAYS": ("days", "Age at which entries of the delivery log are deleted", "you look further back"),
        "PUSH_KEEP_DAYS": ("days", "Time for which delivered events can be delivered again", "you redeliver later"),
        "ROUTEMASTER_REDIS_MAX_MEM": (
            "bytes",
            "Queued events of all subscribers, in PostgreSQL, for [autodrop](push.md#autodrop). `0`: no limit",
            "queues are larger",
        ),
        "ROUTEMASTER_REDIS_MIN_FREE": (
            "bytes",
            "Bytes of `ROUTEMASTER_REDIS_MAX_MEM` that autodrop keeps free. At most half of it",
            "autodrop starts too late",
        ),
        "ROUTEMASTER_SCALING_THRESHOLD": (
            "",
            "`/pulse/scaling` waits for 1 s if this many deliveries are due",
            "your autoscaler uses it",
        ),
        "ROUTEMASTER_SCALING_DEADLINE": (
            "ms",
            "Time ahead within which deliveries count as due for `/pulse/scaling`",
            "your autoscaler uses it",
        ),
        "METRIC_COLLECTION_SERVICE": (
            "`print`, `datadog`, `none`",
            "Target of the bus's metrics every 10 s. `print`: the log of `push`, only values that changed. Prometheus needs none",
            "you use Datadog, or Prometheus alone",
        ),
        "DATADOG_API_KEY": (
            "",
            "Key for Datadog's HTTP API, with `DATADOG_APP_KEY`",
            "you use Datadog without an agent",
        ),
        "DATADOG_APP_KEY": ("", "Second key for Datadog's HTTP API", "you use Datadog without an agent"),
        "DATADOG_STATSD": ("`host:port`", "A Datadog agent, instead of keys", "you use a Datadog agent"),
        "ROUTEMASTER_APP_NAME": ("text", "Tag `app` of the bus's metrics in Datadog", "several buses report there"),
        "EXCEPTION_SERVICE": (
            "`print`, `sentry`, `honeybadger`, `new_relic`",
            "Target of the server's faults besides its logs. `print`: none",
            "you use such a service",
        ),
        "EXCEPTION_SERVICE_URL": (
            "",
            "Sentry: its DSN. Honeybadger: `https://API-KEY@host`. New Relic: unused, set `NEW_RELIC_LICENSE_KEY`",
            "you use such a service",
        ),
    },
    "Console": {
        "TOPICS_HISTORY_MINUTE_DAYS": (
            "days",
            "Days for which the console keeps a sample per minute",
            "charts need more detail",
        ),
        "TOPICS_HISTORY_HOUR_DAYS": (
            "days",
            "Days for which the console keeps a sample per hour",
            "charts look further back",
        ),
        "TOPICS_HISTORY_MAX_SAMPLES": (
            "",
            "Most samples, 250 bytes each. Above: the oldest are deleted",
            "there are very many topics",
        ),
        "TOPICS_CONSOLE_DOWNLOADS": ("", "`0`: no user can download records in the console", "records must not leave"),
        "TOPICS_GATEWAYS": (
            "list",
            "Addresses of [gateways](gateway.md), at most 32: `http://10.0.0.1:4100`. The console's graph shows them",
            "you run gateways",
        ),
        "TOPICS_SIGNALS_TOPIC": (
            "name of a topic",
            "This topic gets a record for each [problem](guides/monitoring.md#problems-in-a-chat-or-a-pager) that begins or ends",
            "a chat or a pager must know",
        ),
    },
    "Spark": {
        "SPARK_MASTER": ("Spark URL", "Spark master of the pipeline's jobs", "you have a cluster"),
        "TOPICS_SPARK_MEMORY": (
            "`512m`, `2g`, …",
            "Memory of each JVM: the driver, and each executor of a cluster",
            "jobs run out of memory",
        ),
        "TOPICS_JDBC_DRIVER": (
            "Maven coordinates or a `.jar`",
            "PostgreSQL's JDBC driver",
            "Maven Central is out of reach",
        ),
    },
}

TAIL = """\
A cap per key counts each key, or, if no key is configured, each address (each /64 network of IPv6). With `TOPICS_TLS_PROXY=1` the
address is the last one in `X-Forwarded-For`. Otherwise all clients behind a proxy count as one client.

Commands also read [`TOPICS_URL` and `TOPICS_KEY`](cli.md#which-server).

## Fixed times

| what | time |
|---|---|
| a `disk` append is flushed (three times PostgreSQL's `wal_writer_delay`) | 0.6 s |
| a changed or revoked key counts in every process | 1 s |
| the sweep finds routers and deliveries that missed a wake-up | 1 s; after a change of a router 60 s |
| a router tries a full dest again | up to 5 s |
| a process writes its heartbeat | 2 s |
| a process without a heartbeat counts as stopped | 15 s |
| a router counts as stalled | 10 s |
| a request waits in a shared transaction for a lock before it gets a line of its own | 100 ms |
| a web process that stops lets its requests finish | 3 s |
"""


def default(name: str) -> str:
    value = DEFAULTS.get(name, "")
    shown = {True: "1", False: "0"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    return COMPUTED.get(name) or (f"`{shown}`" if shown else "none")


def values(name: str, unit: str) -> str:
    """Returns the values that a setting takes, with their unit if its name lacks it."""
    if name in SECRETS:
        return "secret"
    if name in BOUNDS:
        least, most = BOUNDS[name]
        bounds = f"from {least}" if most in (MOST, MOST_BYTES) else f"{least} to {most}"
        is_named = unit in UNITS and name.endswith(UNITS[unit])
        return f"{bounds} {unit}" if unit and not is_named else bounds
    return unit or "flag"


def rows(group: dict[str, tuple[str, str, str]]) -> Iterator[str]:
    """Yields the lines of a table. Without a reason to change in any row, the table has no column for it."""
    has_reasons = any(change for _, _, change in group.values())
    yield "| setting | default; values | meaning |" + " change it if |" * has_reasons
    yield "|---|---|---|" + "---|" * has_reasons
    for name, (unit, meaning, change) in group.items():
        yield f"| `{name}` | {default(name)}; {values(name, unit)} | {meaning} |" + f" {change} |" * has_reasons


def section(title: str, group: dict[str, tuple[str, str, str]]) -> str:
    return "\n\n".join([f"## {title}", *([NOTES[title]] if title in NOTES else []), "\n".join(rows(group))])


def page(declared: dict[str, Any]) -> str:
    """Returns docs/settings.md for these settings. Raises KeyError if the texts do not match the settings."""
    told = {name for group in GROUPS.values() for name in group}
    if told != (wanted := {*declared, "TOPICS_DATA", "TOPICS_POSTGRESQL", "TOPICS_REDIS"}):
        raise KeyError(*sorted(told ^ wanted))
    groups = (section(title, group) for title, group in GROUPS.items())
    return "\n".join([HEAD, *(f"{group}\n" for group in groups), TAIL])
