"""The wire's own tests, unchanged, on Kafka: those of what Kafka offers (through.py)."""

import os
import subprocess
import sys

import pytest

from tests.instances import ROOT
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
FILES = ("tests/api/test_append.py", "tests/api/test_diff.py", "tests/api/test_record.py", "tests/api/test_records.py")


def test_the_contract_holds_on_kafka(broker: Broker) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_CURRENT")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.kafka.through", "-p", "no:cacheprovider", *FILES]
    environment = {**inherited, "KAFKA": broker.address}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
