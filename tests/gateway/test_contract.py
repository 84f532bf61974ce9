"""The wire's own tests, and the bus's, unchanged: through a virtual cluster of one server, and of two."""

import os
import subprocess
import sys

import pytest

from tests.instances import ROOT, Instance

pytestmark = pytest.mark.deep(64)


LOG = ("tests/api/test_append.py", "tests/api/test_diff.py", "tests/api/test_list_topics.py")
# One server gets all calls unchanged, so it is tried with the files about HTTP. Two servers are behind a router.
FILES = {
    "1": ("tests/api/test_http.py", "tests/api/test_list_topics.py"),
    "2": (*LOG, "tests/watch/test_sessions.py", "tests/watch/test_eventstream.py", "tests/push/test_contract.py"),
}


@pytest.mark.parametrize("servers", FILES)
def test_the_contract_holds_through_a_gateway(servers: str, server: Instance) -> None:
    """A test run inside this one: it shares the instance, the migrated folder and the ports of this process."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_CURRENT")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.gateway.through", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *FILES[servers]],
        cwd=ROOT,
        env={**inherited, "GATEWAY_OF": servers, "GATEWAY_SHARED": f"{server.data}:{server.port}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
