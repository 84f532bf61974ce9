"""The planner's settings on every connection that runs scripts: of event loops, threads, workers and commands.

So a statement has the same plan in each process. Without them, PostgreSQL can believe that a table is small and best read as a
whole, and keep this plan while the table grows.
"""

from __future__ import annotations

from typing import Any

# The planner makes one plan, by index, for all batch sizes and all states of the tables. A plan that must read a whole table then
# looks expensive, and PostgreSQL would compile it, which takes longer than the read.
SESSION = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_mergejoin = off;
SET jit = off
"""


def set_up(connection: Any, **_: Any) -> None:
    """Runs on each new connection of Django (topics_project/wiring.py). An event loop's runs SESSION itself (connection.py)."""
    with connection.cursor() as cursor:
        cursor.execute(SESSION)
