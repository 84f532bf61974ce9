"""GET /v0/schema and /v0/docs; and the API holds what its schema says, whatever it is sent."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS as CHECKS_BY_NAME
from schemathesis.checks import load_all_checks

from tests.api.doors import Door
from tests.api.endpoints import STREAMS, endpoints
from tests.instances import Instance

load_all_checks()


def test_it_works(api: Door) -> None:
    reply = api.get("/v0/schema")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json["openapi"].startswith("3.")


def test_every_endpoint_is_described(api: Door) -> None:

    described = {
        (method.upper(), re.sub(r"\{(\w+)\}", r"<\1>", path).removeprefix("/v0/"))
        for path, methods in api.get("/v0/schema").json["paths"].items()
        for method in methods
        if path.startswith("/v0/")
    }
    undescribed = {("GET", "schema"), ("GET", "docs")}
    assert endpoints() - set(STREAMS) - described == undescribed


def test_every_answer_and_body_has_a_shape(api: Door) -> None:
    schema = api.get("/v0/schema").json
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert {"400", "401", "403", "500", "503"} <= set(operation["responses"]), where
            for answer in operation["responses"].values():
                assert next(iter(answer["content"].values()))["schema"], where
            if method in ("put", "post"):
                assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"], where
    for reference in re.findall(r"#/components/schemas/(\w+)", str(schema)):
        assert reference in schema["components"]["schemas"]


def test_the_docs_try_it_without_other_hosts(live: Door) -> None:
    page = live.get("/v0/docs", accept="text/html")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    html = page.body.decode()
    assert "/v0/schema" in html
    assert re.findall(r"https?://[^\"' ]+", html) == []
    files = re.findall(r"(?:src|href)=\"([^\"]+)\"", html)
    assert len(files) >= 3
    for file in files:
        assert live.get(file).status == 200, file


CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_whatever_is_sent_gets_an_answer_of_the_schema(server: Instance, mode: GenerationMode) -> None:
    checks = [CHECKS_BY_NAME.get_one(name) for name in CHECKS]
    for found in schemathesis.openapi.from_url(f"{server.url}/v0/schema").get_all_operations():
        operation = found.ok()
        parts = (operation.body, operation.query, operation.path_parameters)
        if mode is GenerationMode.NEGATIVE and not any(len(part) for part in parts):
            continue  # nothing is asked, so that nothing can be wrong

        @settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=HealthCheck)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            case.validate_response(case.call(), checks=checks)

        send()
