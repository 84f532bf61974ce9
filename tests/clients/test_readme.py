"""Every example of the client runs, in the order of its README, as printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import ROOT, Instance


def test_the_examples_run(instances: Callable[..., Instance]) -> None:
    server = instances()  # the examples are written for a topic that has no records yet
    (first,) = snippets("README.md", "python")
    examples = [*snippets("clients/python/README.md", "python"), first.replace("http://localhost:4000", server.url)]
    assert len(examples) >= 6
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-c", example], env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
