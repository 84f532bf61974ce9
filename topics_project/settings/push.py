"""The push bus (docs/push.md). Routemaster defined these names and meanings, except for PUSH_ names."""

import ipaddress
from pathlib import Path

from base.refusal import Refusal
from topics_project.environment import MOST_BYTES, bus, listed
from topics_project.settings.access import BEYOND_LOOPBACK

ROUTEMASTER_ROOT_KEY: str = bus.hidden(
    "ROUTEMASTER_ROOT_KEY",
    "Manages the tokens. Without it, no client can. Beyond loopback it needs 16 characters",
    "you use the push bus",
)
ROUTEMASTER_CLIENTS: list[str] = listed(
    bus.hidden(
        "ROUTEMASTER_CLIENTS",
        "Tokens that each start creates: `NAME--…` for the client `NAME`. To delete a token, remove it here, too",
        "tokens come from your deployment",
    )
)
# Routemaster's page rejects such subscriptions, Routemaster's code
# accepts them.
ROUTEMASTER_UNKNOWN_TOPICS: str = bus.text(
    "ROUTEMASTER_UNKNOWN_TOPICS",
    "accept",
    "Subscription to a topic without a publisher: accept it, or answer 404",
    "such a subscription is a mistake",
    values="`accept`, `reject`",
)
if ROUTEMASTER_UNKNOWN_TOPICS not in ("accept", "reject"):
    raise Refusal(f"Invalid ROUTEMASTER_UNKNOWN_TOPICS={ROUTEMASTER_UNKNOWN_TOPICS}: expected accept or reject.")
# Levels below `disk` are too weak for a bus.
TOPICS_BUS_DURABILITY: str = bus.text(
    "TOPICS_BUS_DURABILITY",
    "disk",
    "[Durability](guarantees.md#durability) of published events",
    "no acknowledged event may be lost",
    values="`disk`, `fsync`",
)
if TOPICS_BUS_DURABILITY not in ("disk", "fsync"):
    raise Refusal(f"Invalid TOPICS_BUS_DURABILITY={TOPICS_BUS_DURABILITY}: expected disk or fsync.")
FORCE_SSL: bool = bus.flag(
    "FORCE_SSL",
    BEYOND_LOOPBACK,
    "`1`: plain requests for the bus get 308 to `https://`",
    "TLS in front is missing",
    shown="`0` on loopback, else `1`",
)
ROUTEMASTER_MAX_EVENT_DATA: int = bus.number(
    "ROUTEMASTER_MAX_EVENT_DATA",
    0,
    "MessagePack bytes of an event's `data`. `0`: as large as a record",
    "subscribers want small events",
    unit="bytes",
)
ROUTEMASTER_HP_DAMAGE_RATE: int = bus.number(
    "ROUTEMASTER_HP_DAMAGE_RATE",
    -2,
    "Health points for a failed delivery, of 100",
    "callbacks often fail briefly",
    least=-100,
    most=0,
)
ROUTEMASTER_HP_HEAL_RATE: int = bus.number(
    "ROUTEMASTER_HP_HEAL_RATE",
    1,
    "Health points for an acknowledged delivery",
    "callbacks recover too slowly",
    most=100,
)
MAX_BACKOFF_MS: int = bus.number(
    "MAX_BACKOFF_MS",
    60_000,
    "[Pause](push.md#health) after a failure at 0 health points",
    "failing callbacks need longer pauses",
)
ROUTEMASTER_MIN_BACKOFF_MS: int = bus.number(
    "ROUTEMASTER_MIN_BACKOFF_MS",
    1_000,
    "Shortest [pause](push.md#health) after a failure, at most `MAX_BACKOFF_MS`",
    "a failing callback may be called more often",
)
ROUTEMASTER_CONNECT_TIMEOUT: int = bus.number(
    "ROUTEMASTER_CONNECT_TIMEOUT",
    2,
    "Longest wait for a connection to a callback",
    "callbacks are far away",
    unit="s",
    least=1,
)
ROUTEMASTER_TIMEOUT: int = bus.number(
    "ROUTEMASTER_TIMEOUT",
    20,
    "Longest wait for a callback's status and headers",
    "callbacks work for longer",
    unit="s",
    least=1,
)
ROUTEMASTER_SSL_VERIFY: bool = bus.flag(
    "ROUTEMASTER_SSL_VERIFY", True, "`0`: accept any certificate of a callback", "you try out callbacks"
)
ROUTEMASTER_REDIS_MAX_MEM: int = bus.number(
    "ROUTEMASTER_REDIS_MAX_MEM",
    100_000_000,
    "Queued events of all subscribers, in PostgreSQL, for [autodrop](push.md#autodrop). `0`: no limit",
    "queues are larger",
    unit="bytes",
    most=MOST_BYTES,
)
ROUTEMASTER_REDIS_MIN_FREE: int = bus.number(
    "ROUTEMASTER_REDIS_MIN_FREE",
    10_000_000,
    "Bytes of `ROUTEMASTER_REDIS_MAX_MEM` that autodrop keeps free. At most half of it",
    "autodrop starts too late",
    unit="bytes",
    most=MOST_BYTES,
)
if ROUTEMASTER_REDIS_MAX_MEM and 2 * ROUTEMASTER_REDIS_MIN_FREE > ROUTEMASTER_REDIS_MAX_MEM:
    raise Refusal(
        f"Invalid ROUTEMASTER_REDIS_MIN_FREE={ROUTEMASTER_REDIS_MIN_FREE}: expected at most half of "
        f"ROUTEMASTER_REDIS_MAX_MEM={ROUTEMASTER_REDIS_MAX_MEM}. Otherwise autodrop would empty every queue."
    )
ROUTEMASTER_SCALING_THRESHOLD: int = bus.number(
    "ROUTEMASTER_SCALING_THRESHOLD",
    100,
    "`/pulse/scaling` waits for 1 s if this many deliveries are due",
    "your autoscaler uses it",
)
ROUTEMASTER_SCALING_DEADLINE: int = bus.number(
    "ROUTEMASTER_SCALING_DEADLINE",
    1_000,
    "Time ahead within which deliveries count as due for `/pulse/scaling`",
    "your autoscaler uses it",
    unit="ms",
)
METRIC_COLLECTION_SERVICE: str = bus.text(
    "METRIC_COLLECTION_SERVICE",
    "print",
    "Target of the bus's metrics every 10 s. `print`: the log of `push`, only values that changed. Prometheus needs "
    "none",
    "you use Datadog, or Prometheus alone",
    values="`print`, `datadog`, `none`",
)
DATADOG_API_KEY: str = bus.hidden(
    "DATADOG_API_KEY", "Key for Datadog's HTTP API, with `DATADOG_APP_KEY`", "you use Datadog without an agent"
)
DATADOG_APP_KEY: str = bus.hidden(
    "DATADOG_APP_KEY", "Second key for Datadog's HTTP API", "you use Datadog without an agent"
)
DATADOG_STATSD: str = bus.text(
    "DATADOG_STATSD", "", "A Datadog agent, instead of keys", "you use a Datadog agent", values="`host:port`"
)
ROUTEMASTER_APP_NAME: str = bus.text(
    "ROUTEMASTER_APP_NAME", "", "Tag `app` of the bus's metrics in Datadog", "several buses report there", values="text"
)
EXCEPTION_SERVICE: str = bus.text(
    "EXCEPTION_SERVICE",
    "print",
    "Target of the server's faults besides its logs. `print`: none",
    "you use such a service",
    values="`print`, `sentry`, `honeybadger`, `new_relic`",
)
EXCEPTION_SERVICE_URL: str = bus.hidden(
    "EXCEPTION_SERVICE_URL",
    "Sentry: its DSN. Honeybadger: `https://API-KEY@host`. New Relic: unused, set `NEW_RELIC_LICENSE_KEY`",
    "you use such a service",
)
# An attacker can choose callback URLs. The server must not call addresses that only this machine or its cloud should reach.
PUSH_CALLBACK_DENY: list[str] = bus.words(
    "PUSH_CALLBACK_DENY",
    "169.254.0.0/16,fe80::/10,fd00:ec2::254/128,100.100.100.200/32,168.63.129.16/32,0.0.0.0/8,::/128",
    "Networks that no callback may reach, by default link-local addresses and metadata addresses of clouds",
    "your network has more to protect",
    values="list of networks",
)
for _network in PUSH_CALLBACK_DENY:
    try:
        ipaddress.ip_network(_network)
    except ValueError as error:
        raise Refusal(f"Invalid network {_network} in PUSH_CALLBACK_DENY: expected 10.0.0.0/8, for example.") from error
PUSH_CALLBACK_LOOPBACK_HTTP: bool = bus.flag(
    "PUSH_CALLBACK_LOOPBACK_HTTP", False, "`1`: allow `http://` callbacks to this machine", "you try out the bus"
)
PUSH_CALLBACK_CA: str = bus.text(
    "PUSH_CALLBACK_CA",
    "",
    "Certificates (PEM) to trust for callbacks, besides the system's",
    "you have your own CA",
    values="file",
)
if PUSH_CALLBACK_CA and not Path(PUSH_CALLBACK_CA).is_file():
    raise Refusal(f"Invalid PUSH_CALLBACK_CA={PUSH_CALLBACK_CA}: expected a file with certificates in PEM.")
# push/delivery/deliveries.py waits for them.
PUSH_CALLBACKS_AT_ONCE: int = bus.number(
    "PUSH_CALLBACKS_AT_ONCE", 256, "Callbacks that a process waits for at once", "many callbacks are slow", least=4
)
PUSH_SLOW_MS: int = bus.number(
    "PUSH_SLOW_MS",
    2_000,
    "A slower callback counts as failing, even if it acknowledges",
    "callbacks work for longer",
    least=1,
)
PUSH_LOG_DAYS: int = bus.number(
    "PUSH_LOG_DAYS", 7, "Age at which entries of the delivery log are deleted", "you look further back", least=1
)
PUSH_KEEP_DAYS: int = bus.number(
    "PUSH_KEEP_DAYS", 7, "Time for which delivered events can be delivered again", "you redeliver later", least=1
)
