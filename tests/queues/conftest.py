import pytest

from tests.api.clients import ApiClient, HttpClient
from tests.instances import Instance


@pytest.fixture
def api(server: Instance) -> ApiClient:
    return HttpClient(server.port)
