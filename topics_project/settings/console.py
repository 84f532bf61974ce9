"""The console (console/)."""

from base.names import TOPIC_NAME
from base.refusal import Refusal
from topics_project.environment import console, is_origin

TOPICS_HISTORY_MINUTE_DAYS: int = console.number(
    "TOPICS_HISTORY_MINUTE_DAYS",
    3,
    "Days for which the console keeps a sample per minute",
    "charts need more detail",
    least=1,
)
TOPICS_HISTORY_HOUR_DAYS: int = console.number(
    "TOPICS_HISTORY_HOUR_DAYS",
    180,
    "Days for which the console keeps a sample per hour",
    "charts look further back",
    least=1,
)
TOPICS_HISTORY_MAX_SAMPLES: int = console.number(
    "TOPICS_HISTORY_MAX_SAMPLES",
    2_000_000,
    "Most samples, 250 bytes each. Above: the oldest are deleted",
    "there are very many topics",
    least=10_000,
)
TOPICS_CONSOLE_DOWNLOADS: bool = console.flag(
    "TOPICS_CONSOLE_DOWNLOADS", True, "`0`: no user can download records in the console", "records must not leave"
)
TOPICS_GATEWAYS: list[str] = console.words(
    "TOPICS_GATEWAYS",
    "",
    "Addresses of [gateways](gateway.md), at most 32: `http://10.0.0.1:4100`. The console's graph shows them",
    "you run gateways",
)
for _gateway in TOPICS_GATEWAYS:
    if not is_origin(_gateway):
        raise Refusal(f"Invalid address {_gateway} in TOPICS_GATEWAYS: expected http://10.0.0.1:4100, for example.")
if len(set(TOPICS_GATEWAYS)) != len(TOPICS_GATEWAYS) or len(TOPICS_GATEWAYS) > 32:
    raise Refusal("Invalid TOPICS_GATEWAYS: expected at most 32 addresses, each only once.")

TOPICS_SIGNALS_TOPIC: str = console.text(
    "TOPICS_SIGNALS_TOPIC",
    "",
    "This topic gets a record for each [problem](guides/monitoring.md#problems-in-a-chat-or-a-pager) that begins or "
    "ends",
    "a chat or a pager must know",
    values="name of a topic",
)
if TOPICS_SIGNALS_TOPIC and not TOPIC_NAME.fullmatch(TOPICS_SIGNALS_TOPIC):
    raise Refusal(
        f"Invalid TOPICS_SIGNALS_TOPIC={TOPICS_SIGNALS_TOPIC}: expected a name of a topic, such as ops.signals."
    )
