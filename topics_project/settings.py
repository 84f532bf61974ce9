"""All settings, each declared once, read from the environment. docs/settings.md lists them.

An invalid value stops any process at its start with a one-line message. Without DATABASE_URL, REDIS_URL or SECRET_KEY,
`manage.py` sets the embedded servers' values (embedded/servers.py).
"""

import hashlib
import ipaddress
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from redis.connection import parse_url

from base import redis_client
from base.database_url import ENCODE, database_url, tcp_timeout
from base.names import TOPIC_NAME
from base.refusal import Refusal
from base.tracing import tracing
from embedded.folder import LEAST_SECRET, data_dir
from topics_project import __version__
from topics_project.environment import MOST_BYTES, flag, hidden, is_origin, listed, number, refuse_unknown, text, words

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION: str = __version__
# The wheel keeps templates inside this package, because another package could install a folder `templates` beside the package.
TEMPLATES_DIR = BASE_DIR / "topics_project" / "templates"
if not TEMPLATES_DIR.exists():
    TEMPLATES_DIR = BASE_DIR / "templates"

# -- Address and processes -----------------------------------------------------------------------------------------

HOST: str = text("HOST", "127.0.0.1")
PORT: int = number("PORT", 4000, least=1, most=65535)
# Two processes saturate two cores. Above four, PostgreSQL is the limit.
WEB_WORKERS: int = number("WEB_WORKERS", min(os.cpu_count() or 1, 4), least=1)
# Threads of each web process for Django's views. Each thread holds a database connection.
WEB_THREADS: int = number("WEB_THREADS", 3, least=1)
WORKER_PROCESSES: int = number("WORKER_PROCESSES", 2, least=1)  # of the Celery worker
# Processes that `manage.py run` starts beside the web server. Leave out push if you do not use the push bus, and beat if beat
# runs on another host.
TOPICS_PROCESSES: list[str] = words("TOPICS_PROCESSES", "worker,push,beat")
if not {"worker", "push", "beat"}.issuperset(TOPICS_PROCESSES):
    raise Refusal("Invalid TOPICS_PROCESSES: expected worker, push and beat, or some of them, with commas between.")
# The folder of the embedded PostgreSQL and Redis, of logs and of generated secrets.
TOPICS_DATA: Path = data_dir()
DEBUG: bool = flag("DEBUG", False)
# Whether each request has a line in the log. With `json`, every line of the log is a JSON object.
TOPICS_LOG: str = text("TOPICS_LOG", "off")
if TOPICS_LOG not in ("off", "text", "json"):
    raise Refusal(f"Invalid TOPICS_LOG={TOPICS_LOG}: expected off, text or json.")
# A call that takes longer is logged, with the parts of its time. 0: none.
TOPICS_SLOW_MS: int = number("TOPICS_SLOW_MS", 0)
# Whether an append with a sampled `traceparent` keeps it in the `meta` of its records.
TOPICS_TRACE_RECORDS: bool = flag("TOPICS_TRACE_RECORDS", False)
tracing.configure(os.environ)  # the variables OTEL_…

# -- Servers -------------------------------------------------------------------------------------------------------

# Any connection string of libpq. The password can be separate: then the file of PostgreSQL's own container works.
DATABASE_URL: str = database_url(hidden("DATABASE_URL"), hidden("DATABASE_PASSWORD"))
REDIS_URL: str = hidden("REDIS_URL")
if not DATABASE_URL or not REDIS_URL:
    missing = "REDIS_URL" if DATABASE_URL else "DATABASE_URL"
    raise Refusal(f"{missing} is not set: set it, or start with manage.py, which starts its own servers.")
if not REDIS_URL.startswith(("redis://", "rediss://")):
    raise Refusal("Invalid REDIS_URL: expected redis://… or rediss://…")


# Timeouts for PostgreSQL, in milliseconds. PostgreSQL enforces the lock, idle transaction, statement and worker statement
# timeouts; 0 is no limit. These timeouts hold on connections of web and worker processes (store/timeouts.py), not for
# migrations and commands. A write holds a head only while its own statements run, a few ms. A write that holds a head for
# seconds hangs.
TOPICS_LOCK_TIMEOUT_MS: int = number("TOPICS_LOCK_TIMEOUT_MS", 5_000)
# The supervisor kills a process without a heartbeat for this long, and starts another (heartbeats.py). 0: never, for a
# debugger.
TOPICS_FROZEN_SECONDS: int = number("TOPICS_FROZEN_SECONDS", 5, most=3600)
# A burst opens connections to PostgreSQL. Connections that were idle for this long are closed. 0: never.
TOPICS_IDLE_CONNECTION_SECONDS: int = number("TOPICS_IDLE_CONNECTION_SECONDS", 60, most=86_400)
# A process that is stopped, or cut off, in the middle of a transaction holds heads. A healthy process is idle in a transaction
# only while the process makes and sends the next statement: seconds for a body of 64 MiB on a busy machine, otherwise no time.
# After this timeout PostgreSQL rolls the transaction back, so the topics can be written again.
TOPICS_IDLE_TRANSACTION_TIMEOUT_MS: int = number("TOPICS_IDLE_TRANSACTION_TIMEOUT_MS", 10_000)
# Few clients wait longer. The longest known statement, a delete of a million records by tag, took 18 s on a busy machine.
TOPICS_STATEMENT_TIMEOUT_MS: int = number("TOPICS_STATEMENT_TIMEOUT_MS", 60_000)
# A worker's steps have a bounded number of rows, and no client waits for a step. A timeout would undo the step's work, so the
# limit is much longer.
TOPICS_WORKER_STATEMENT_TIMEOUT_MS: int = number("TOPICS_WORKER_STATEMENT_TIMEOUT_MS", 300_000)
# The event loop's own statements, appends and reads, take milliseconds. A connection without an answer for this long is closed
# and replaced.
TOPICS_ANSWER_TIMEOUT_MS: int = number("TOPICS_ANSWER_TIMEOUT_MS", 10_000, least=1000)
# A healthy PostgreSQL accepts within milliseconds. libpq counts in seconds, from two on.
TOPICS_CONNECT_TIMEOUT_MS: int = number("TOPICS_CONNECT_TIMEOUT_MS", 3_000, least=2000)
# A connection counts as lost if the network delivers nothing for this long.
TOPICS_TCP_TIMEOUT_MS: int = number("TOPICS_TCP_TIMEOUT_MS", 15_000, least=3000)


def database(url: str) -> dict[str, Any]:
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": {
            "connect_timeout": -(-TOPICS_CONNECT_TIMEOUT_MS // 1000),
            **tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
            **parts,
        },
        "CONN_MAX_AGE": None,  # a new connection costs more than most requests, so connections are kept and checked
        "CONN_HEALTH_CHECKS": True,
    }


DATABASES = {"default": database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- Access --------------------------------------------------------------------------------------------------------

SECRET_KEY: str = hidden("SECRET_KEY")
if not SECRET_KEY:
    raise Refusal("SECRET_KEY is not set: set it to a long random string (the same for every process of this site).")
if len(SECRET_KEY) < LEAST_SECRET or len(set(SECRET_KEY)) < 5 or SECRET_KEY.startswith("django-insecure-"):
    raise Refusal(f"SECRET_KEY is easy to guess: set it to a random string of at least {LEAST_SECRET} characters.")
# What the keys, queues and channels in Redis begin with. Sites have different secrets, so two sites can share a Redis.
TOPICS_REDIS_PREFIX: str = (
    text("TOPICS_REDIS_PREFIX") or f"topics:{hashlib.sha256(SECRET_KEY.encode()).hexdigest()[:8]}:"
)
if not re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", TOPICS_REDIS_PREFIX):
    raise Refusal("Invalid TOPICS_REDIS_PREFIX: expected 1 to 64 letters, digits, dots, colons, dashes or underscores.")
# Host names that the API and the admin accept. wire/access/hosts.py explains the attack that the check prevents.
ALLOWED_HOSTS: list[str] = words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS: list[str] = words("CSRF_TRUSTED_ORIGINS")  # https://… of a proxy in front of the admin
# Pages of these origins can call /v0 from a browser (wire/access/cors.py). Each origin must be listed, because without keys a
# caller may do everything.
CORS_ALLOWED_ORIGINS: list[str] = words("CORS_ALLOWED_ORIGINS")
for _origin in CORS_ALLOWED_ORIGINS:
    if not is_origin(_origin):
        raise Refusal(
            f"Invalid origin {_origin} in CORS_ALLOWED_ORIGINS: expected https://app.example or http://localhost:3000."
        )
# One proxy in front ends TLS, sets X-Forwarded-Proto, and appends to X-Forwarded-For. All requests must come through the proxy.
# Without a proxy, a client could set these headers to any value.
TOPICS_TLS_PROXY: bool = flag("TOPICS_TLS_PROXY", False)
TOPICS_API_KEYS: str = hidden(
    "TOPICS_API_KEYS"
)  # secret:scopes:prefix|prefix, separated by commas (wire/access/keys.py)
TOPICS_INSECURE: bool = flag("TOPICS_INSECURE", False)  # listen beyond this machine without keys
# Whether unknown fields of a body or query are refused (wire/request/parse.py). Deletes always refuse unknown fields.
TOPICS_STRICT: bool = flag("TOPICS_STRICT", True)


def loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


BEYOND_LOOPBACK = not loopback(HOST)  # other machines can reach the port
if not (loopback(HOST) or TOPICS_API_KEYS or TOPICS_INSECURE):
    raise Refusal(f"HOST={HOST} is beyond loopback, and no keys are set: set TOPICS_API_KEYS, or TOPICS_INSECURE=1.")
if DEBUG and (TOPICS_TLS_PROXY or not loopback(HOST)):
    raise Refusal("DEBUG=1 shows internals to every client: unset DEBUG, or unset HOST and TOPICS_TLS_PROXY.")
if TOPICS_TLS_PROXY and not os.environ.get("ALLOWED_HOSTS", "").strip():
    raise Refusal("TOPICS_TLS_PROXY=1 needs ALLOWED_HOSTS: set it to the host names of the proxy.")
for origin in CSRF_TRUSTED_ORIGINS:
    if not origin.startswith(("https://",) if TOPICS_TLS_PROXY else ("https://", "http://")):
        raise Refusal(f"Invalid origin {origin} in CSRF_TRUSTED_ORIGINS: expected https://{origin.rpartition('//')[2]}")
if not os.environ.get("ALLOWED_HOSTS", "").strip() and HOST not in ("0.0.0.0", "::", "[::]", *ALLOWED_HOSTS):
    ALLOWED_HOSTS.append(f"[{HOST.strip('[]')}]" if ":" in HOST else HOST)

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TOPICS_TLS_PROXY else None
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TOPICS_TLS_PROXY
SECURE_HSTS_SECONDS = 30 * 86_400 if TOPICS_TLS_PROXY else 0
# The owner of the domain decides in the proxy whether all subdomains must use TLS permanently.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# If no admin exists, the start of the first processes creates the user `admin` with this password (operations/prepare.py).
TOPICS_ADMIN_PASSWORD: str = hidden("TOPICS_ADMIN_PASSWORD")

# Failed logins to the admin (topics_project/logins.py). The database counts failures of all processes by address. If failures
# were counted by name, a stranger could lock the admin out.
TOPICS_LOGIN_FAILURES: int = number("TOPICS_LOGIN_FAILURES", 10, least=1)
TOPICS_LOGIN_LOCK_SECONDS: int = number("TOPICS_LOGIN_LOCK_SECONDS", 300, least=1)
AXES_FAILURE_LIMIT = TOPICS_LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=TOPICS_LOGIN_LOCK_SECONDS)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # further attempts during the lock do not extend the lock
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_CLIENT_IP_CALLABLE = "topics_project.logins.address"
AXES_LOCKOUT_CALLABLE = "topics_project.logins.locked_out"
AXES_VERBOSE = False
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]

# -- Limits (docs/settings.md; caps are off at 0) ------------------------------------------------------------------

TOPICS_MAX_RECORDS_PER_APPEND: int = number("TOPICS_MAX_RECORDS_PER_APPEND", 10_000, least=1)
TOPICS_MAX_RECORD_BYTES: int = number("TOPICS_MAX_RECORD_BYTES", 1024 * 1024, least=1)  # data and meta
TOPICS_MAX_BODY_BYTES: int = number("TOPICS_MAX_BODY_BYTES", 64 * 1024 * 1024, least=1)
TOPICS_MAX_CALL_BYTES: int = number("TOPICS_MAX_CALL_BYTES", 1024 * 1024, least=1)
TOPICS_MAX_META_BYTES: int = number("TOPICS_MAX_META_BYTES", 16 * 1024, least=2)
TOPICS_MAX_META_KEYS: int = number("TOPICS_MAX_META_KEYS", 64)
TOPICS_MAX_TAG_BYTES: int = number("TOPICS_MAX_TAG_BYTES", 256, least=1)
TOPICS_MAX_NODE_BYTES: int = number("TOPICS_MAX_NODE_BYTES", 128, least=1)
TOPICS_DIFF_BYTES: int = number("TOPICS_DIFF_BYTES", 1024 * 1024, least=1)  # byte budget of one read
TOPICS_DIFF_MAX_LIMIT: int = number("TOPICS_DIFF_MAX_LIMIT", 1000, least=1)
# Nodes that one read or watch excludes; each record is compared with each node.
TOPICS_MAX_NODES: int = number("TOPICS_MAX_NODES", 1000, least=1)
TOPICS_MAX_TOPICS: int = number("TOPICS_MAX_TOPICS", 100_000)
TOPICS_MAX_ROUTERS: int = number("TOPICS_MAX_ROUTERS", 10_000)
TOPICS_MAX_GROUPS: int = number("TOPICS_MAX_GROUPS", 2_000)
# Half of the total, so that one key that joins ever new names locks out no other.
TOPICS_MAX_GROUPS_PER_KEY: int = number("TOPICS_MAX_GROUPS_PER_KEY", 1_000)
TOPICS_GROUP_DAYS: int = number("TOPICS_GROUP_DAYS", 30)  # a group without members and commits is then forgotten
TOPICS_MAX_WEBHOOKS: int = number("TOPICS_MAX_WEBHOOKS", 10_000)
TOPICS_MAX_SCHEDULES: int = number("TOPICS_MAX_SCHEDULES", 100_000)
TOPICS_MAX_WATCH_SESSIONS: int = number("TOPICS_MAX_WATCH_SESSIONS", 20_000)
# Half of the total, so that one client that opens and forgets sessions cannot use up the total. A site has one key for all of its
# pages. At 10,000 page loads a minute, a session without a stream is kept for 30 s beside the most streams. Without keys, an
# address counts like a key, also in the caps of streams and of requests in flight (wire/access/client.py).
TOPICS_MAX_WATCH_SESSIONS_PER_KEY: int = number("TOPICS_MAX_WATCH_SESSIONS_PER_KEY", 10_000)
TOPICS_MAX_STREAMS: int = number("TOPICS_MAX_STREAMS", 10_000)
TOPICS_MAX_STREAMS_PER_KEY: int = number("TOPICS_MAX_STREAMS_PER_KEY", 5_000)
# A stalled reader holds up to 512 KiB. So about 100 stalled readers can resume in each web process without a gap.
TOPICS_MAX_STALLED_BYTES: int = number("TOPICS_MAX_STALLED_BYTES", 64 * 1024 * 1024, most=MOST_BYTES)
# Less than the 60 s after which proxies end a connection without bytes. A dead peer's socket ends after two of these.
TOPICS_WS_PING_MS: int = number("TOPICS_WS_PING_MS", 20_000, least=100)
TOPICS_WS_DEFLATE: bool = flag("TOPICS_WS_DEFLATE", False)
TOPICS_MAX_IN_FLIGHT_PER_KEY: int = number("TOPICS_MAX_IN_FLIGHT_PER_KEY", 1_000)
# Four of the largest bodies per web process. More bodies at once would take memory from all other requests.
TOPICS_MAX_BODIES_BYTES: int = number("TOPICS_MAX_BODIES_BYTES", 256 * 1024 * 1024, most=MOST_BYTES)
# Large bodies of each web process. It parses 16 MiB in about a tenth of a second, so small requests keep the rest of its time.
TOPICS_LARGE_BODIES_RATE: int = number(
    "TOPICS_LARGE_BODIES_RATE", 16 * 1024 * 1024, most=MOST_BYTES
)  # bytes per second
TOPICS_MAX_TOTAL_BYTES: int = number("TOPICS_MAX_TOTAL_BYTES", 0, most=MOST_BYTES)
# The average rate of an upload is checked after this time, so stalled uploads do not accumulate. Any phone is faster. A busy
# server that reads slowly itself has 10 seconds to recover.
TOPICS_UPLOAD_GRACE_MS: int = number("TOPICS_UPLOAD_GRACE_MS", 10_000, least=1)
TOPICS_UPLOAD_LEAST_RATE: int = number("TOPICS_UPLOAD_LEAST_RATE", 16 * 1024, least=1)  # bytes per second
TOPICS_MAX_ROUTER_HOPS: int = number("TOPICS_MAX_ROUTER_HOPS", 8, least=1)
TOPICS_AUDIT_DAYS: int = number("TOPICS_AUDIT_DAYS", 90, least=1)  # how long the audit log is kept
TOPICS_WATCH_SESSION_TTL_MS: int = number("TOPICS_WATCH_SESSION_TTL_MS", 300_000, least=1)

# -- The push bus (docs/push.md). Routemaster defined these names and meanings, except for PUSH_ names ------------------

# Manages the tokens; without the key the tokens cannot be managed.
ROUTEMASTER_ROOT_KEY: str = hidden("ROUTEMASTER_ROOT_KEY")
ROUTEMASTER_CLIENTS: list[str] = listed(hidden("ROUTEMASTER_CLIENTS"))  # tokens that exist from the start
# For a subscription to a topic without any publication. Routemaster's page rejects such subscriptions, Routemaster's code
# accepts them.
ROUTEMASTER_UNKNOWN_TOPICS: str = text("ROUTEMASTER_UNKNOWN_TOPICS", "accept")
if ROUTEMASTER_UNKNOWN_TOPICS not in ("accept", "reject"):
    raise Refusal(f"Invalid ROUTEMASTER_UNKNOWN_TOPICS={ROUTEMASTER_UNKNOWN_TOPICS}: expected accept or reject.")
# The guarantee of an acknowledged event, like a topic's durability. Levels below `disk` are too weak for a bus.
TOPICS_BUS_DURABILITY: str = text("TOPICS_BUS_DURABILITY", "disk")
if TOPICS_BUS_DURABILITY not in ("disk", "fsync"):
    raise Refusal(f"Invalid TOPICS_BUS_DURABILITY={TOPICS_BUS_DURABILITY}: expected disk or fsync.")
# A plain HTTP request to the bus gets a 308 to https. Off if only this machine can connect.
FORCE_SSL: bool = flag("FORCE_SSL", BEYOND_LOOPBACK)
# Bytes of MessagePack; 0: the limit of a record.
ROUTEMASTER_MAX_EVENT_DATA: int = number("ROUTEMASTER_MAX_EVENT_DATA", 0)
ROUTEMASTER_HP_DAMAGE_RATE: int = number("ROUTEMASTER_HP_DAMAGE_RATE", -2, least=-100, most=0)
ROUTEMASTER_HP_HEAL_RATE: int = number("ROUTEMASTER_HP_HEAL_RATE", 1, most=100)
MAX_BACKOFF_MS: int = number("MAX_BACKOFF_MS", 60_000)
ROUTEMASTER_MIN_BACKOFF_MS: int = number("ROUTEMASTER_MIN_BACKOFF_MS", 1_000)
# ROUTEMASTER_CONNECT_TIMEOUT and ROUTEMASTER_TIMEOUT are in seconds.
ROUTEMASTER_CONNECT_TIMEOUT: int = number("ROUTEMASTER_CONNECT_TIMEOUT", 2, least=1)
ROUTEMASTER_TIMEOUT: int = number("ROUTEMASTER_TIMEOUT", 20, least=1)
ROUTEMASTER_SSL_VERIFY: bool = flag("ROUTEMASTER_SSL_VERIFY", True)
# The cap for bytes of queued events of all subscribers, and the bytes of the cap to keep free.
ROUTEMASTER_REDIS_MAX_MEM: int = number("ROUTEMASTER_REDIS_MAX_MEM", 100_000_000, most=MOST_BYTES)
ROUTEMASTER_REDIS_MIN_FREE: int = number("ROUTEMASTER_REDIS_MIN_FREE", 10_000_000, most=MOST_BYTES)
if ROUTEMASTER_REDIS_MAX_MEM and 2 * ROUTEMASTER_REDIS_MIN_FREE > ROUTEMASTER_REDIS_MAX_MEM:
    raise Refusal(
        f"Invalid ROUTEMASTER_REDIS_MIN_FREE={ROUTEMASTER_REDIS_MIN_FREE}: expected at most half of "
        f"ROUTEMASTER_REDIS_MAX_MEM={ROUTEMASTER_REDIS_MAX_MEM}. Otherwise autodrop would empty every queue."
    )
ROUTEMASTER_SCALING_THRESHOLD: int = number("ROUTEMASTER_SCALING_THRESHOLD", 100)
ROUTEMASTER_SCALING_DEADLINE: int = number("ROUTEMASTER_SCALING_DEADLINE", 1_000)  # ms
METRIC_COLLECTION_SERVICE: str = text("METRIC_COLLECTION_SERVICE", "print")  # or datadog, none
DATADOG_API_KEY: str = hidden("DATADOG_API_KEY")
DATADOG_APP_KEY: str = hidden("DATADOG_APP_KEY")
DATADOG_STATSD: str = text("DATADOG_STATSD")  # host:port of an agent; no keys are needed then
ROUTEMASTER_APP_NAME: str = text("ROUTEMASTER_APP_NAME")  # a tag of all metrics
EXCEPTION_SERVICE: str = text("EXCEPTION_SERVICE", "print")  # or sentry, honeybadger, new_relic
EXCEPTION_SERVICE_URL: str = hidden("EXCEPTION_SERVICE_URL")
# An attacker can choose callback URLs. The server must not call addresses that only this machine or its cloud should reach.
PUSH_CALLBACK_DENY: list[str] = words(
    "PUSH_CALLBACK_DENY",
    "169.254.0.0/16,fe80::/10,fd00:ec2::254/128,100.100.100.200/32,168.63.129.16/32,0.0.0.0/8,::/128",
)
for _network in PUSH_CALLBACK_DENY:
    try:
        ipaddress.ip_network(_network)
    except ValueError as error:
        raise Refusal(f"Invalid network {_network} in PUSH_CALLBACK_DENY: expected 10.0.0.0/8, for example.") from error
PUSH_CALLBACK_LOOPBACK_HTTP: bool = flag("PUSH_CALLBACK_LOOPBACK_HTTP", False)  # http:// to this machine, for tests
PUSH_CALLBACK_CA: str = text("PUSH_CALLBACK_CA")  # a file with certificates to trust besides the system's
if PUSH_CALLBACK_CA and not Path(PUSH_CALLBACK_CA).is_file():
    raise Refusal(f"Invalid PUSH_CALLBACK_CA={PUSH_CALLBACK_CA}: expected a file with certificates in PEM.")
# Callbacks that one worker process waits for at once (push/delivery/deliveries.py).
PUSH_CALLBACKS_AT_ONCE: int = number("PUSH_CALLBACKS_AT_ONCE", 256, least=4)
PUSH_SLOW_MS: int = number("PUSH_SLOW_MS", 2_000, least=1)  # a callback that takes longer counts as failing
PUSH_LOG_DAYS: int = number("PUSH_LOG_DAYS", 7, least=1)  # how long deliveries stay in the log
PUSH_KEEP_DAYS: int = number("PUSH_KEEP_DAYS", 7, least=1)  # how long delivered events can be delivered again
# -- The console (console/) ------------------------------------------------------------------------------------------

# Samples of each topic and router: one per minute for the first days, then one per hour, up to a maximum number of rows.
TOPICS_HISTORY_MINUTE_DAYS: int = number("TOPICS_HISTORY_MINUTE_DAYS", 3, least=1)
TOPICS_HISTORY_HOUR_DAYS: int = number("TOPICS_HISTORY_HOUR_DAYS", 180, least=1)
TOPICS_HISTORY_MAX_SAMPLES: int = number("TOPICS_HISTORY_MAX_SAMPLES", 2_000_000, least=10_000)  # about 250 bytes each
TOPICS_CONSOLE_DOWNLOADS: bool = flag("TOPICS_CONSOLE_DOWNLOADS", True)  # of records, for users with the permission
TOPICS_GATEWAYS: list[str] = words("TOPICS_GATEWAYS")  # addresses that the graph page queries (console/gateways.py)
for _gateway in TOPICS_GATEWAYS:
    if not is_origin(_gateway):
        raise Refusal(f"Invalid address {_gateway} in TOPICS_GATEWAYS: expected http://10.0.0.1:4100, for example.")
if len(set(TOPICS_GATEWAYS)) != len(TOPICS_GATEWAYS) or len(TOPICS_GATEWAYS) > 32:
    raise Refusal("Invalid TOPICS_GATEWAYS: expected at most 32 addresses, each only once.")

TOPICS_SIGNALS_TOPIC: str = text("TOPICS_SIGNALS_TOPIC")  # gets a record for each problem that opens or closes
if TOPICS_SIGNALS_TOPIC and not TOPIC_NAME.fullmatch(TOPICS_SIGNALS_TOPIC):
    raise Refusal(
        f"Invalid TOPICS_SIGNALS_TOPIC={TOPICS_SIGNALS_TOPIC}: expected a name of a topic, such as ops.signals."
    )

# -- Streams: settings of django-eventstream (watch/wakes.py, watch/eventstream.py) --------------------------------


def redis_options(url: str) -> dict[str, Any]:
    """Returns the arguments of redis.Redis for a Redis URL. Raises Refusal for an invalid URL."""
    refusal = Refusal(f"Invalid REDIS_URL: expected redis://USER:PASSWORD@HOST:PORT/NUMBER: {ENCODE}.")
    # A `/`, `?` or `#` of a password ends the host for Redis, so the @ that belongs to the host comes behind it.
    if re.match(r"\w+://[^/?#]*[/?#].*@", url):
        raise refusal
    try:
        options: dict[str, Any] = dict(parse_url(url))
    except ValueError:  # its message has the part that it cannot read
        raise refusal from None
    options["ssl"] = url.startswith("rediss:")
    options["unix_socket_path"] = options.pop("path", None)
    options.pop("connection_class", None)
    defaults = {
        "socket_connect_timeout": 2,
        "health_check_interval": 10,
        **redis_client.tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
    }
    return {**defaults, **options}


EVENTSTREAM_REDIS = redis_options(REDIS_URL)

# -- Celery: tasks repair lost messages, so no results are stored --------------------------------------------------

CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # if Redis is down, wait
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    # Beat and web processes wait for no answer of a Redis that stands still. A worker reads when an answer is there, so its waits
    # for messages may take longer.
    "socket_timeout": 5,
    **redis_client.tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
    "global_keyprefix": TOPICS_REDIS_PREFIX,
}
CELERY_TASK_DEFAULT_QUEUE = "topics"  # Celery's own default is also that of other applications
# Without this setting the worker would reconnect for each task, and plan every statement again.
CELERY_DB_REUSE_MAX = 1000
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_PUBLISH_RETRY = False  # the sweep finds the work of lost messages
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_ROUTES = {"push.*": {"queue": "topics.push"}}  # a separate worker, so that callbacks delay no other task
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False  # printed text is meant for standard output (push/reports/reporters.py)
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "topics_project.operations.beat:Scheduler"


def every(seconds: float, task: str) -> dict[str, Any]:
    """Returns an entry of beat's schedule. Messages that pile up are skipped (periodic.py)."""
    return {"task": task, "schedule": seconds}


CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # A lost wake-up delays forwarding by at most a second, and after a change of a router by a minute.
    "sweep routers": every(1.0, "routers.sweep"),
    # One probe of an index if no schedule is due. A job is appended up to a second after its time.
    "append due jobs": every(1.0, "queues.append_due"),
    "expire": every(2.0, "topics.expire"),
    # Reads the unsettled heads. A topic without appends for 5 s gives back its reserved seqs, 1,000 topics per run.
    "rest": every(5.0, "topics.rest"),
    "reclaim": every(2.0, "topics.reclaim"),
    # A query of a small table. A due job starts in its own process.
    "pipeline": every(10.0, "pipeline.start_due"),
    "report push metrics": every(10.0, "push.report"),
    "autodrop": every(30.0, "push.autodrop"),
    "forget delivered events": every(60.0, "push.tidy"),
    # Wake-ups use Redis and timers. The sweep finds lost wake-ups, and deliveries that a killed worker left behind.
    "sweep deliveries": every(1.0, "push.sweep"),
    # An expired session is refused even before the sweep. The sweep only deletes its row.
    "sweep watch sessions": every(30.0, "topics.sweep_watch_sessions"),
    # Two queries of small tables. A group with a stream ends the sessions of its killed members itself.
    "sweep groups": every(10.0, "groups.sweep"),
    # Twice a minute, so that a late message skips no minute. The second run finds the minute already written.
    "sample": every(30.0, "console.sample"),
    "judge": every(15.0, "console.judge"),
    "thin samples": every(600.0, "console.thin"),
}

# -- The pipeline (pipeline/session.py). Values are checked when a job runs ------------------------------------------

SPARK_MASTER: str = text("SPARK_MASTER", "local[*]")  # where jobs run; spark-submit can override the master
# Memory of each JVM, driver and executors. A local master has only one JVM for both.
TOPICS_SPARK_MEMORY: str = text("TOPICS_SPARK_MEMORY", "600m")
TOPICS_JDBC_DRIVER: str = text("TOPICS_JDBC_DRIVER", "org.postgresql:postgresql:42.7.8")
if not TOPICS_JDBC_DRIVER.endswith(".jar") and TOPICS_JDBC_DRIVER.count(":") != 2:
    raise Refusal(f"Invalid TOPICS_JDBC_DRIVER={TOPICS_JDBC_DRIVER}: expected a .jar or group:artifact:version.")
if not re.fullmatch(r"[1-9]\d*[kmgt]", TOPICS_SPARK_MEMORY.lower()):
    raise Refusal(f"Invalid TOPICS_SPARK_MEMORY={TOPICS_SPARK_MEMORY}: expected 1g or 512m, for example.")

refuse_unknown()

# -- Django --------------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "console.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular_sidecar",
    "django_eventstream",
    "axes",
    "topics_project",
    "topics",
    "watch",
    "groups",
    "mirrors",
    "queues",
    "door",
    "outbox",
    "routers",
    "pipeline",
    "push",
    "console",
]

SESSION_ENGINE = "console.sessions"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "wire.access.actor.middleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "topics_project.urls"
APPEND_SLASH = False  # a redirected POST would lose its body
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # TOPICS_MAX_BODY_BYTES is the limit, refused before the body is read

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATES_DIR],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False  # lookups of Django's texts in an English catalog took a quarter of a page's time

STATIC_URL = "/static/"
WHITENOISE_ALLOW_ALL_ORIGINS = False  # no page of another site needs the files
WHITENOISE_USE_FINDERS = True  # serves the admin's files from their packages, without collectstatic

REST_FRAMEWORK = {
    "UNAUTHENTICATED_USER": None,  # keys identify the caller (wire/endpoint.py)
    "URL_FORMAT_OVERRIDE": None,  # the Accept header chooses the format
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
        "json": {"()": "base.json_log.JsonFormatter"},
    },
    "filters": {"one_line": {"()": "base.redis_client.OneLine"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json" if TOPICS_LOG == "json" else "text",
            "filters": ["one_line"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "axes": {"level": "ERROR"},  # its lines of failed logins have no address (topics_project/logins.py)
        "websockets": {"level": "WARNING"},  # it reports the end of each socket
        "django.request": {"level": "ERROR"},  # a 4xx is reported to the client, not in the log
    },
}
