"""DELETE /v0/routers/:router, and what becomes of routers when a topic is deleted."""

from collections.abc import Iterator
from typing import Any

from routers.models import Router
from tests.api.clients import ApiClient
from tests.routers.conftest import read, route
from topics.models import Cursor


def test_it_works(views: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    views.append(source, 1)
    assert read(views, dest) == [1]
    answer = views.delete(f"/v0/routers/{router}").json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {"router": router, "deleted": True}
    views.append(source, 2)
    assert read(views, dest) == [1]  # what was forwarded stays, and nothing follows
    assert views.get(f"/v0/routers/{router}").code == "router_not_found"
    assert not Cursor.objects.filter(name=router).exists()


def test_an_absent_router_is_no_error(api: ApiClient, names: Iterator[str]) -> None:
    router = next(names)
    reply = api.delete(f"/v0/routers/{router}")
    assert (reply.status, reply.json["router"], reply.json["deleted"]) == (200, router, False)


def test_a_bad_name_is_400(api: ApiClient) -> None:
    assert api.delete("/v0/routers/-").code == "invalid_request"


def test_a_new_one_of_its_name_begins_anew(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, other = next(names), next(names), next(names)
    router = route(api, source, dest)
    api.append(source, 1)
    read(api, dest)
    api.delete(f"/v0/routers/{router}")
    route(api, source, other, router)
    answer = api.get(f"/v0/routers/{router}").json
    assert (answer["dest"], answer["forwarded_total"], answer["cursor"], answer["lag"]) == (other, 0, 1, 0)


def test_a_key_needs_delete_and_all_names_within_its_prefixes(views: ApiClient, keys: Any) -> None:
    keys("root:admin+read,writer:write+read+admin,mine:delete:a.")
    for router, source, dest in (
        ("a.r", "a.1", "a.2"),
        ("a.s", "a.1", "b.2"),
        ("a.t", "b.1", "a.3"),
        ("b.r", "a.1", "a.4"),
    ):
        views.put(f"/v0/routers/{router}", {"source": source, "dest": dest}, authorization="Bearer root")
    assert views.delete("/v0/routers/a.r", authorization="Bearer writer").code == "forbidden"
    for router in ("a.s", "a.t", "b.r"):
        refused = views.delete(f"/v0/routers/{router}", authorization="Bearer mine")
        assert (refused.status, refused.code) == (403, "forbidden")
        assert views.get(f"/v0/routers/{router}", authorization="Bearer root").status == 200
    assert views.delete("/v0/routers/a.r", authorization="Bearer mine").json["deleted"] is True


def test_a_deleted_topic_takes_its_routers_along(views: ApiClient, names: Iterator[str]) -> None:
    a, b, c, d = next(names), next(names), next(names), next(names)
    into, out, aside = route(views, a, b), route(views, b, c), route(views, a, d)
    views.append(a, 1)
    assert read(views, c) == [1]
    assert views.delete(f"/v0/topics/{b}").json["routers_removed"] == sorted([into, out])
    assert [router["router"] for router in views.get("/v0/routers").json["routers"]] == [aside]
    assert read(views, c) == [1]
    views.append(a, 2)
    assert (read(views, c), read(views, d)) == ([1], [1, 2])
    views.append(b, "of another b")
    assert read(views, c) == [1]


def test_a_cycle_that_is_broken_is_none(views: ApiClient, names: Iterator[str]) -> None:
    a, b, c = next(names), next(names), next(names)
    first = route(views, a, b)
    route(views, b, c)
    route(views, c, a, allow_cycle=True)
    assert Router.objects.get(name=first).cyclic
    views.delete(f"/v0/topics/{c}")
    assert not Router.objects.get(name=first).cyclic
    back = route(views, b, a, allow_cycle=True)
    assert Router.objects.get(name=first).cyclic
    views.delete(f"/v0/routers/{back}")
    assert not Router.objects.get(name=first).cyclic
