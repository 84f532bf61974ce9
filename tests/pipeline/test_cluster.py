"""A cluster of several processes."""

from __future__ import annotations

from pathlib import Path

from tests.deadlines import DEADLINE
from tests.pipeline.cluster import WORKERS, cluster
from tests.pipeline.filling import ODD, fill, rows
from tests.pipeline.programs import Start


def test_a_read_a_write_and_a_stream_run_on_a_cluster(
    dsn: str, small: dict[str, str], start: Start, tmp_path: Path
) -> None:
    """On executors that have nothing of the project except what the driver sends them."""
    fill("orders", ODD * 40, tag=[f"t:{n}" for n in range(440)])
    with cluster(tmp_path, small) as master:
        argv = ("-m", "tests.pipeline.spread", dsn, str(tmp_path / "checkpoint"))
        code = start(*argv, SPARK_MASTER=master, SPARK_LOCAL_IP="127.0.0.1").wait(4 * DEADLINE)
    assert code == 0, (tmp_path / "output").read_text()[-4000:]
    assert len(list(tmp_path.glob("worker*/app-*/*/stderr"))) == WORKERS  # each worker had an executor
    data = "SELECT tag, data::text FROM topic_log WHERE topic = %s ORDER BY seq"
    assert rows(data, "out") == rows(data, "orders")
    assert sorted(rows(data, "copy")) == sorted(rows(data, "orders"))
