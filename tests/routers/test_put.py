"""PUT /v0/routers/:router."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from routers.api.shapes import RouterSettings
from tests.api.clients import ApiClient
from tests.routers.conftest import read, route

DEFAULTS = {
    "preserve_node": True,
    "preserve_tag": True,
    "filter": None,
    "allow_cycle": False,
    "guarantee": "at_least_once",
    "allow_fan_in": False,
    "paused": False,
}


def test_it_works(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, router = next(names), next(names), next(names)
    made = api.put(f"/v0/routers/{router}", {"source": source, "dest": dest})
    assert made.status == 201
    answer = made.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {"router": router, "created": True, "source": source, "dest": dest, **DEFAULTS}
    api.append(source, 1)
    assert read(api, dest) == [1]


def test_what_is_identical_changes_nothing(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest)
    again = api.put(f"/v0/routers/{router}", {"source": source, "dest": dest})
    assert (again.status, again.json["created"]) == (200, False)
    assert {name: again.json[name] for name in DEFAULTS} == DEFAULTS


def test_every_option_can_be_given_when_it_is_made_and_later(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, router = next(names), next(names), next(names)
    options: dict[str, Any] = {
        "preserve_node": False,
        "preserve_tag": False,
        "filter": ["tag", "Glob", "public:*"],
        "allow_cycle": True,
        "guarantee": "exactly_once",
        "allow_fan_in": True,
        "paused": True,
    }
    ends = {"source": source, "dest": dest}
    made = api.put(f"/v0/routers/{router}", {**ends, **options})
    assert made.status == 201
    assert {name: made.json[name] for name in options} == options
    for name, value in DEFAULTS.items():
        changed = api.put(f"/v0/routers/{router}", {**ends, name: value})
        assert (changed.status, changed.json["created"], changed.json[name]) == (200, False, value)
        options[name] = value
        assert {name: changed.json[name] for name in options} == options  # what is not named stays
    for name, value in {"filter": ["tag", "Eq", "x"], "guarantee": "exactly_once"}.items():
        assert api.put(f"/v0/routers/{router}", {**ends, name: value}).json[name] == value
    shown = api.get(f"/v0/routers/{router}").json
    config = {name: shown[name] for name in RouterSettings.__struct_fields__ if name != "router"}
    assert api.put(f"/v0/routers/{router}", config).status == 200
    assert {**api.get(f"/v0/routers/{router}").json, "performance": 0} == {**shown, "performance": 0}


def test_a_name_may_hold_an_arrow(live: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    name = f"{source}->{dest}"
    path = f"/v0/routers/{quote(name)}"
    assert "%3E" in path  # as every HTTP library writes it; hyper takes no bare ">" in a request line
    assert live.put(path, {"source": source, "dest": dest}).json["router"] == name
    assert live.get(path).json["router"] == name
    assert live.delete(path).json["router"] == name
    assert live.get(path).code == "router_not_found"


@pytest.mark.parametrize("router", ["-a", "a b", "ä", "a" * 256, ">a"])
def test_bad_names_are_refused(api: ApiClient, names: Iterator[str], router: str) -> None:
    refused = api.put(f"/v0/routers/{quote(router)}", {"source": next(names), "dest": next(names)})
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        {"dest": "d"},
        {"source": "s"},
        {},
        [],
        {"source": "s", "dest": "s"},
        {"source": "s", "dest": None},
        {"source": 1, "dest": "d"},
        {"source": "", "dest": "d"},
        {"source": "s", "dest": "a b"},
        {"source": "s>t", "dest": "d"},
        {"source": "s", "dest": "d", "filter": []},
        {"source": "s", "dest": "d", "filter": ["tag", "Eq"]},
        {"source": "s", "dest": "d", "filter": ["node", "Eq", "x"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Like", "x"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Glob", "x"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Glob", "x*y*"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Glob", "*x"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Eq", "x", "y"]},
        {"source": "s", "dest": "d", "filter": ["tag", "Eq", 1]},
        {"source": "s", "dest": "d", "filter": {"tag": "x"}},
        {"source": "s", "dest": "d", "guarantee": "at_most_once"},
        {"source": "s", "dest": "d", "guarantee": None},
        {"source": "s", "dest": "d", "preserve_node": 1},
        {"source": "s", "dest": "d", "allow_cycle": "yes"},
        {"source": "s", "dest": "d", "from": "tail"},
        {"source": "s", "dest": "d", "from": -1},
        {"source": "s", "dest": "d", "from": 1.5},
        {"source": "s", "dest": "d", "from_ts": -1},
        {"source": "s", "dest": "d", "from_ts": "now"},
        b"{",
        b"",
    ],
)
def test_what_cannot_be_is_refused(views: ApiClient, names: Iterator[str], body: Any) -> None:
    router = next(names)
    refused = views.put(f"/v0/routers/{router}", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert views.get(f"/v0/routers/{router}").status == 404
    assert views.get("/v0/topics/s").status == 404


def test_a_bare_string_filter_is_eq(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, router = next(names), next(names), next(names)
    made = api.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "filter": "x"})
    assert made.json["filter"] == ["tag", "Eq", "x"]


def test_the_body_has_to_be_json(api: ApiClient, names: Iterator[str]) -> None:
    refused = api.put(f"/v0/routers/{next(names)}", {"source": "s", "dest": "d"}, content_type="text/plain")
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_other_methods_are_refused(api: ApiClient, names: Iterator[str]) -> None:
    for method in ("POST", "PATCH"):
        refused = api.call(method, f"/v0/routers/{next(names)}", {})
        assert (refused.status, refused.code) == (405, "method_not_allowed")


def test_source_and_dest_are_made(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    route(api, source, dest)
    for topic in (source, dest):
        assert api.get(f"/v0/topics/{topic}").json["head_seq"] == 0


def test_an_absent_dest_is_refused_when_it_is_not_to_be_made(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, router = next(names), next(names), next(names)
    refused = api.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "create_dest": False})
    assert (refused.status, refused.code) == (404, "topic_not_found")
    assert refused.detail == {"topic": dest}
    assert api.get(f"/v0/topics/{source}").status == 404  # nothing was made on the way
    api.put(f"/v0/topics/{dest}")
    assert api.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "create_dest": False}).status == 201


@pytest.mark.guarantee("F3")
def test_a_cycle_is_refused_with_its_path(api: ApiClient, names: Iterator[str]) -> None:
    a, b, c = next(names), next(names), next(names)
    route(api, a, b)
    refused = api.put(f"/v0/routers/{b}->{a}", {"source": b, "dest": a})
    assert (refused.status, refused.code) == (409, "router_cycle")
    assert refused.detail == {"cycle": [b, a, b]}
    route(api, b, c)
    refused = api.put(f"/v0/routers/{c}->{a}", {"source": c, "dest": a})
    assert refused.detail == {"cycle": [c, a, b, c]}
    assert api.get(f"/v0/routers/{c}->{a}").code == "router_not_found"
    assert api.put(f"/v0/routers/{c}->{a}", {"source": c, "dest": a, "allow_cycle": True}).status == 201


def test_a_router_on_a_cycle_has_to_keep_allowing_it(api: ApiClient, names: Iterator[str]) -> None:
    a, b = next(names), next(names)
    there = route(api, a, b, allow_cycle=True)
    back = route(api, b, a, allow_cycle=True)
    refused = api.put(f"/v0/routers/{there}", {"source": a, "dest": b, "allow_cycle": False})
    assert (refused.status, refused.code) == (409, "router_cycle")
    assert refused.detail["cycle"] in ([a, b, a], [b, a, b])
    api.delete(f"/v0/routers/{back}")
    allowed = api.put(f"/v0/routers/{there}", {"source": a, "dest": b, "allow_cycle": False})
    assert (allowed.status, allowed.json["allow_cycle"]) == (200, False)


def test_the_router_that_was_there_first_need_not_allow_the_cycle(api: ApiClient, names: Iterator[str]) -> None:
    a, b = next(names), next(names)
    route(api, a, b)
    route(api, b, a, allow_cycle=True)
    api.append(a, "of a")
    api.append(b, "of b")
    assert sorted(read(api, a)) == sorted(read(api, b)) == ["of a", "of b"]


def test_a_second_source_into_a_dest_is_refused(api: ApiClient, names: Iterator[str]) -> None:
    a, b, dest = next(names), next(names), next(names)
    first = route(api, a, dest)
    refused = api.put(f"/v0/routers/{b}->{dest}", {"source": b, "dest": dest})
    assert (refused.status, refused.code) == (409, "topic_exists_incompatible")
    assert refused.detail == {"reason": "router_dest_fan_in", "dest": dest, "source": a, "router": first}
    assert api.get(f"/v0/topics/{b}").status == 404
    # Both have to allow it.
    refused = api.put(f"/v0/routers/{b}->{dest}", {"source": b, "dest": dest, "allow_fan_in": True})
    assert refused.detail["reason"] == "router_dest_fan_in"
    api.put(f"/v0/routers/{first}", {"source": a, "dest": dest, "allow_fan_in": True})
    second = route(api, b, dest, allow_fan_in=True)
    for name, source in ((first, a), (second, b)):
        refused = api.put(f"/v0/routers/{name}", {"source": source, "dest": dest, "allow_fan_in": False})
        assert refused.detail["reason"] == "router_dest_fan_in"
    api.append(a, "of a"), api.append(b, "of b")
    assert sorted(read(api, dest)) == ["of a", "of b"]


def test_two_routers_may_share_source_and_dest(api: ApiClient, names: Iterator[str]) -> None:
    source, dest, one, two = next(names), next(names), next(names), next(names)
    route(api, source, dest, one, filter="x")
    route(api, source, dest, two, filter="y")
    api.post(f"/v0/topics/{source}", {"records": [{"data": tag, "tag": tag} for tag in "xyz"]})
    assert read(api, dest) == ["x", "y"]


@pytest.mark.parametrize("other", ["source", "dest"])
def test_a_router_cannot_be_led_elsewhere(api: ApiClient, names: Iterator[str], other: str) -> None:
    ends = {"source": next(names), "dest": next(names)}
    router = route(api, **ends)
    elsewhere = next(names)
    refused = api.put(f"/v0/routers/{router}", {**ends, other: elsewhere})
    assert (refused.status, refused.code) == (409, "topic_exists_incompatible")
    assert refused.detail == {"reason": "router_leads_elsewhere", "router": router, **ends}
    assert api.get(f"/v0/topics/{elsewhere}").status == 404


def test_a_router_begins_at_the_head(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    api.append(source, 1, 2)
    route(api, source, dest)
    api.append(source, 3)
    assert read(api, dest) == [3]


@pytest.mark.parametrize(
    ("start", "shown"), [("earliest", [2, 3, 4]), ("head", []), (0, [2, 3, 4]), (3, [4]), (99, [])]
)
def test_a_router_begins_where_it_is_told(api: ApiClient, names: Iterator[str], start: Any, shown: list[int]) -> None:
    source, dest = next(names), next(names)
    api.append(source, 1, 2, 3, 4)
    api.post(f"/v0/topics/{source}/delete", {"before_seq": 2})
    route(api, source, dest, **{"from": start})
    reply = api.diff(dest).json
    assert [record["data"] for record in reply["records"]] == shown
    assert reply["tombstone"] is None


def test_a_router_begins_at_a_time(api: ApiClient, names: Iterator[str]) -> None:
    source, early, late = next(names), next(names), next(names)
    api.append(source, 1)
    ts = api.diff(source).json["records"][0]["$ts"]
    route(api, source, early, from_ts=ts)
    route(api, source, late, from_ts=ts + 1)
    api.append(source, 2)
    assert read(api, early) == [1, 2]
    assert read(api, late)[-1:] == [2]


def test_what_the_source_lost_before_is_no_loss_of_the_router(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    api.put(f"/v0/topics/{source}", {"cap_records": 1})
    api.append(source, 1, 2, 3)
    route(api, source, dest, **{"from": "earliest"})
    reply = api.diff(dest).json
    assert ([record["data"] for record in reply["records"]], reply["tombstone"]) == ([3], None)


def test_a_paused_router_stands_still_and_goes_on_where_it_stood(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest, paused=True)
    ends = {"source": source, "dest": dest}
    api.append(source, 1)
    assert read(api, dest) == []
    assert api.put(f"/v0/routers/{router}", ends).json["paused"] is True
    assert api.put(f"/v0/routers/{router}", {**ends, "paused": False}).json["paused"] is False
    assert read(api, dest) == [1]
    api.put(f"/v0/routers/{router}", {**ends, "paused": True})
    api.append(source, 2)
    assert read(api, dest) == [1]


def test_a_new_filter_counts_for_what_is_forwarded_from_then_on(api: ApiClient, names: Iterator[str]) -> None:
    source, dest = next(names), next(names)
    router = route(api, source, dest)
    records = {"records": [{"data": "x", "tag": "x"}, {"data": "y", "tag": "y"}]}
    api.post(f"/v0/topics/{source}", records)
    assert read(api, dest) == ["x", "y"]
    api.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "filter": "y", "preserve_tag": False})
    api.post(f"/v0/topics/{source}", records)
    shown = api.diff(dest, include_tags=True).json["records"]
    assert [(record["data"], record.get("$tag")) for record in shown] == [("x", "x"), ("y", "y"), ("y", None)]


def test_a_key_needs_admin_and_all_names_within_its_prefixes(views: ApiClient, keys: Any) -> None:
    keys("root:admin+read+write+delete,writer:read+write+delete,mine:admin+read+delete+write:a.|b.")
    ends = {"source": "a.1", "dest": "b.1"}
    refused = views.put("/v0/routers/a.r", ends, authorization="Bearer writer")
    assert (refused.status, refused.code) == (403, "forbidden")
    for router, body in (
        ("c.r", ends),
        ("a.r", {"source": "c.1", "dest": "b.1"}),
        ("a.r", {"source": "a.1", "dest": "c.1"}),
    ):
        refused = views.put(f"/v0/routers/{router}", body, authorization="Bearer mine")
        assert (refused.status, refused.code) == (403, "forbidden")
    assert views.put("/v0/routers/a.r", ends).code == "unauthorized"
    assert views.put("/v0/routers/a.r", ends, authorization="Bearer mine").status == 201
    # Nor may it take over a router of that name that leads elsewhere.
    views.put("/v0/routers/a.other", {"source": "c.1", "dest": "c.2"}, authorization="Bearer root")
    refused = views.put("/v0/routers/a.other", ends, authorization="Bearer mine")
    assert (refused.status, refused.code) == (403, "forbidden")


def test_the_number_of_routers_is_capped(views: ApiClient, names: Iterator[str], settings: Any) -> None:
    source, dest, more = next(names), next(names), next(names)
    router = route(views, source, dest)
    settings.TOPICS_MAX_ROUTERS = 1
    refused = views.put(f"/v0/routers/{next(names)}", {"source": source, "dest": more})
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "throttled", "60")
    assert refused.detail == {"limit": "routers", "max": 1}
    assert views.put(f"/v0/routers/{router}", {"source": source, "dest": dest}).status == 200
