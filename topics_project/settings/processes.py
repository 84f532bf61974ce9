"""How many processes serve, what they log, and how strictly they read."""

import os

from base.refusal import Refusal
from base.tracing import tracing
from topics_project.environment import processes

# Two processes saturate two cores. Above four, PostgreSQL is the limit.
WEB_WORKERS: int = processes.number(
    "WEB_WORKERS",
    min(os.cpu_count() or 1, 4),
    "Web processes",
    "cores are idle or connections run out",
    shown="cores, at most 4",
    least=1,
)
# Threads of each web process for Django's views. Each thread holds a database connection.
WEB_THREADS: int = processes.number(
    "WEB_THREADS", 3, "Threads of each web process for calls through Django", "many admin pages are open", least=1
)
WORKER_PROCESSES: int = processes.number(
    "WORKER_PROCESSES", 2, "Processes of the Celery worker", "routers lag", least=1
)
TOPICS_PROCESSES: list[str] = processes.words(
    "TOPICS_PROCESSES",
    "worker,push,beat",
    "Processes that `manage.py run` starts beside the web server. Without `push`, no callback is called",
    "another host runs them",
    values="list of `worker`, `push`, `beat`",
)
if not {"worker", "push", "beat"}.issuperset(TOPICS_PROCESSES):
    raise Refusal("Invalid TOPICS_PROCESSES: expected worker, push and beat, or some of them, with commas between.")
# The supervisor sees to it (topics_project/heartbeats.py).
TOPICS_FROZEN_SECONDS: int = processes.number(
    "TOPICS_FROZEN_SECONDS",
    5,
    "`manage.py run` replaces a process that gave no heartbeat for this time (Linux). `0`: never",
    "you debug a process",
    most=3600,
)
TOPICS_LOG: str = processes.text(
    "TOPICS_LOG",
    "off",
    "Whether the log has a line for each request. `json`: all lines of the log are JSON objects",
    "a program collects the log",
    values="`off`, `text` or `json`",
)
if TOPICS_LOG not in ("off", "text", "json"):
    raise Refusal(f"Invalid TOPICS_LOG={TOPICS_LOG}: expected off, text or json.")
TOPICS_SLOW_MS: int = processes.number(
    "TOPICS_SLOW_MS", 0, "A call that takes longer is logged, with the parts of its time. `0`: none", "calls are slow"
)
TOPICS_TRACE_RECORDS: bool = processes.flag(
    "TOPICS_TRACE_RECORDS",
    False,
    "`1`: the records of an append keep a sampled `traceparent` in `meta`, for readers and callbacks",
    "consumers trace ([monitor](guides/monitoring.md#traces))",
)
tracing.configure(os.environ)  # the variables OTEL_…
# wire/request/parse.py refuses them.
TOPICS_STRICT: bool = processes.flag(
    "TOPICS_STRICT",
    True,
    "`1`: unknown fields of a body or query are refused. `0`: ignored, except in calls that delete",
    "you cannot change a client",
)
