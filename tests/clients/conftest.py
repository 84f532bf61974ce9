"""The clients' tests.

pytest parses the modules of its plugins when they load, and anyio, which httpx uses, is one. It loads its event loop at the first
call, which can be in several threads at once, and two that parse make Python before 3.11.8 fail (gh-106905). So it loads here.
"""

import anyio._backends._asyncio  # noqa: F401
import pytest

from tests.instances import Instance
from tests.watch.wire import Api, new_name


@pytest.fixture
def queue(server: Instance) -> str:
    name = new_name()
    assert Api(server.port).call("PUT", f"/v0/topics/{name}", {"type": "queue", "max_deliveries": 0}).status == 201
    return name
