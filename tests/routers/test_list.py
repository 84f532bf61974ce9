"""GET /v0/routers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.clients import ApiClient
from tests.routers.conftest import read, route


def listed(api: ApiClient, query: str = "", **headers: str) -> list[str]:
    return [router["router"] for router in api.get(f"/v0/routers?{query}", **headers).json["routers"]]


def test_it_works(views: ApiClient, names: Iterator[str]) -> None:
    a, b, c = next(names), next(names), next(names)
    first, second = route(views, a, b), route(views, a, c, guarantee="exactly_once")
    views.append(a, 1)
    read(views, b)
    answer = views.get("/v0/routers").json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert set(answer) == {"routers"}
    wanted = [(first, a, b, "at_least_once", 1, 0), (second, a, c, "exactly_once", 0, 1)]
    fields = ("router", "source", "dest", "guarantee", "forwarded_total", "lag")
    assert [tuple(router[field] for field in fields) for router in answer["routers"]] == wanted
    alone = views.get(f"/v0/routers/{first}").json
    assert set(answer["routers"][0]) == set(alone) - {"performance"}


def test_there_may_be_none(views: ApiClient) -> None:
    assert views.get("/v0/routers").json["routers"] == []


def test_filters(api: ApiClient) -> None:
    for router, source, dest in (("x1", "a", "b"), ("x2", "a", "c"), ("y1", "b", "d")):
        route(api, source, dest, router)
    assert listed(api, "source=a") == ["x1", "x2"]
    assert listed(api, "dest=c") == ["x2"]
    assert listed(api, "source=a&dest=b") == ["x1"]
    assert listed(api, "source=b&dest=b") == []
    assert listed(api, "source=nobody") == []
    assert listed(api, "prefix=x") == ["x1", "x2"]
    assert listed(api, "prefix=X") == []
    assert listed(api, "prefix=y&source=a") == []


def test_pages_are_in_order_of_name_byte_by_byte(views: ApiClient) -> None:
    for router in ("b", "a", "B", "a>", "a-", "a.b"):
        route(views, "s", f"d{ord(router[-1])}{len(router)}", router)
    everything = ["B", "a", "a-", "a.b", "a>", "b"]
    assert listed(views) == everything
    found: list[str] = []
    query = "page_size=4"
    while True:
        page = views.get(f"/v0/routers?{query}").json
        found += [router["router"] for router in page["routers"]]
        if "next_cursor" not in page:
            break
        assert len(page["routers"]) == 4
        query = f"page_size=4&cursor={page['next_cursor']}"
    assert found == everything
    assert listed(views, "page_size=6") == everything
    assert "next_cursor" not in views.get("/v0/routers?page_size=6").json


def test_a_page_goes_on_where_it_ended_when_routers_come_and_go(views: ApiClient) -> None:
    for router in "abcd":
        route(views, "s", router, router)
    cursor = views.get("/v0/routers?page_size=2").json["next_cursor"]
    views.delete("/v0/routers/b"), views.delete("/v0/routers/c"), route(views, "s", "e", "aa")
    assert listed(views, f"cursor={cursor}") == ["d"]


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=eyJhIjoxfQ==", "cursor=%00", "page_size=0", "page_size=x", "page_size=-1"]
)
def test_what_cannot_be_is_refused(api: ApiClient, query: str) -> None:
    refused = api.get(f"/v0/routers?{query}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_large_page_is_cut_to_the_largest(views: ApiClient) -> None:
    route(views, "s", "d", "r")
    assert listed(views, "page_size=5000") == ["r"]


def test_a_key_sees_only_what_lies_within_its_prefixes(views: ApiClient, keys: Any) -> None:
    keys("root:admin+read,writer:write,mine:read:a.|b.")
    ends = [
        ("a.1", "a.1", "a.2"),
        ("a.2", "a.1", "c.2"),
        ("a.3", "c.1", "a.3"),
        ("c.1", "a.1", "a.4"),
        ("b.1", "a.1", "b.2"),
    ]
    for router, source, dest in ends:
        views.put(f"/v0/routers/{router}", {"source": source, "dest": dest}, authorization="Bearer root")
    assert listed(views, authorization="Bearer mine") == ["a.1", "b.1"]
    assert listed(views, "source=a.1", authorization="Bearer mine") == ["a.1", "b.1"]
    assert listed(views, "source=c.1", authorization="Bearer mine") == []
    assert listed(views, "prefix=c", authorization="Bearer mine") == []
    page = views.get("/v0/routers?page_size=1", authorization="Bearer mine").json
    assert listed(views, f"page_size=1&cursor={page['next_cursor']}", authorization="Bearer mine") == ["b.1"]
    assert views.get("/v0/routers").code == "unauthorized"
    assert views.get("/v0/routers", authorization="Bearer writer").code == "forbidden"
