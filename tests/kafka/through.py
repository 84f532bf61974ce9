"""A plugin of pytest: each instance that a test starts is reached at a gateway over Kafka, so the wire's own tests run on Kafka.

`KAFKA=127.0.0.1:9092 python -m pytest -p tests.kafka.through tests/api/test_append.py` runs them unchanged.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import instances
from tests.gateway.running import Running
from tests.kafka.conftest import cluster_of

# What is otherwise on Kafka, by the words of docs/kafka.md.
OTHERWISE = {
    "api/test_append.py": {
        "test_a_key_answers_the_first_seqs_again": "a transaction leaves a hole",
        "test_a_key_with_other_records_is_refused": "no cap_records",
        "test_a_key_for_each_record_stores_only_the_unknown_ones": "no keys of records",
        "test_the_keys_of_records_that_fit_no_append_are_refused": "no keys of records",
        "test_the_headers_key_names_the_records_without_a_key": "no keys of records",
        "test_what_is_no_record_may_differ_under_a_key": "no expected_head",
        "test_a_key_is_forgotten_after_the_window": "the window is fixed",
        "test_an_append_that_expects_another_head_changes_nothing": "no expected_head",
        "test_a_full_topic_that_rejects_takes_nothing": "no topic rejects",
        "test_a_full_topic_drops_the_oldest": "no cap_records",
        "test_every_durability_is_served": "no ephemeral topics",
        "test_names_are_byte_exact_and_up_to_255_long": "names have no colon",
    },
    "api/test_diff.py": {
        "test_what_is_clamped_is_told": "no routers",
        "test_a_topic_may_want_echoes": "no dedupe_node",
        "test_pages_in_descending_order_lead_to_the_earliest_record": "no cap_records",
        "test_what_a_cap_took_is_told": "no cap_records",
        "test_what_is_over_its_time_is_told_and_not_shown": "retention is late",
        "test_a_cursor_of_a_topic_that_was_deleted_is_told": "a topic begins at seq 1",
        "test_an_empty_topic_continues_above_the_one_that_was_deleted": "a topic begins at seq 1",
        "test_deleted_records_are_skipped_silently": "deletes by before_seq alone",
        "test_a_read_from_a_time_has_no_tombstone": "no cap_records",
    },
    "api/test_record.py": {
        "test_what_is_gone_is_not_found": "deletes by before_seq alone",
        "test_a_forwarded_record_tells_its_way": "no routers",
    },
}
_start = instances.start


@contextlib.contextmanager
def start(**settings: str) -> Iterator[instances.Instance]:
    with tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder), cluster_of(os.environ["KAFKA"], "127.0.0.1", "localhost", "x")).start()
        try:
            yield instances.Instance(Path(folder), running.port, settings)
        finally:
            running.kill()


instances.start = start  # before conftest.py takes it from there


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what is otherwise on Kafka, and what asks the views of this process."""

    def is_left_out(item: pytest.Item) -> bool:
        file, _, name = item.nodeid.partition("[")[0].removeprefix("tests/").partition("::")
        return name in OTHERWISE.get(file, {}) or "views" in getattr(item, "fixturenames", ())

    items[:] = [item for item in items if not is_left_out(item)]
