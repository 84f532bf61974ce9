"""Routers in GET /v0/metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.api.clients import ApiClient
from tests.api.test_metrics import samples
from tests.routers.conftest import read, route
from tests.routers.test_get import grow_old


def of_router(api: ApiClient, router: str, **headers: str) -> dict[str, float]:
    found = samples(api, **headers)
    return {
        name.removeprefix("topics_router_"): value
        for (name, labels), value in found.items()
        if name.startswith("topics_router_") and ("router", router) in labels
    }


def test_it_works(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    views.append(source, 1, 2)
    read(views, dest)
    idle = {"lag_records": 0, "lag_seconds": 0, "forwarded_total": 2, "errors_total": 0, "stalled": 0}
    assert of_router(views, router) == idle
    views.append(source, 3)
    grow_old(source, router)
    behind = of_router(views, router)
    assert behind.pop("lag_seconds") > 60
    assert behind == {"lag_records": 1, "forwarded_total": 2, "errors_total": 0, "stalled": 1}
    read(views, dest)
    assert of_router(views, router) == {**idle, "forwarded_total": 3}


def test_labels_say_where_it_leads(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest)
    assert ("topics_router_stalled", (("dest", dest), ("router", router), ("source", source))) in samples(api)


def test_errors_are_counted(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    api.put(f"/v0/topics/{dest}", {"cap_records": 1, "discard": "reject"})
    router = route(api, source, dest)
    api.append(source, 1, 2)
    read(api, dest)
    assert of_router(api, router)["errors_total"] >= 1  # it tries again


def test_a_key_sees_only_what_lies_within_its_prefixes(views: ApiClient, keys: Any) -> None:
    keys("root:admin+read,mine:read:a.")
    for router, source, dest in (("a.r", "a.1", "a.2"), ("a.s", "a.1", "b.2"), ("b.r", "a.1", "a.4")):
        views.put(f"/v0/routers/{router}", {"source": source, "dest": dest}, authorization="Bearer root")
    mine = {"authorization": "Bearer mine"}
    assert [bool(of_router(views, router, **mine)) for router in ("a.r", "a.s", "b.r")] == [True, False, False]
