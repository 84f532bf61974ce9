"""Virtual node ids are a bijection through any nesting. A wrapped identifier comes back whole, and only from this gateway."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rewrite.ids import Foreign, Seal, Unwrapped, from_virtual, to_virtual

LEVELS = st.lists(st.integers(1, 50).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, s - 1))), max_size=4)


@given(LEVELS, st.integers(0, 2**31 - 1))
def test_a_virtual_id_leads_back_through_every_router(levels: list[tuple[int, int]], node: int) -> None:
    """`levels`: routes and chosen route of each router, the innermost first."""
    virtual = node
    for routes, route in levels:
        virtual = to_virtual(routes, route, virtual)
    for routes, route in reversed(levels):
        found, virtual = from_virtual(routes, virtual)
        assert found == route
    assert virtual == node


@given(st.integers(1, 20), st.integers(0, 10_000))
def test_each_number_is_one_node_of_one_route(routes: int, virtual: int) -> None:
    assert to_virtual(routes, *from_virtual(routes, virtual)) == virtual


@given(st.integers(0, 2**31 - 1))
def test_one_route_alone_changes_nothing(node: int) -> None:
    assert to_virtual(1, 0, node) == node


def test_a_route_id_outside_its_router_is_refused() -> None:
    for route in (-1, 2):
        with pytest.raises(ValueError, match="not below 2"):
            to_virtual(2, route, 0)


@given(st.integers(0, 2**63 - 1), st.text(max_size=300))
def test_what_is_wrapped_comes_back(node: int, identifier: str) -> None:
    seal = Seal([b"key"])
    wrapped = seal.wrap("watch", node, identifier)
    assert wrapped.isascii()
    assert set(wrapped) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert seal.unwrap("watch", wrapped) == Unwrapped(node, identifier)


@given(st.data())
def test_a_changed_identifier_is_refused(data: st.DataObject) -> None:
    seal = Seal([b"key"])
    wrapped = seal.wrap("cursor", 3, "wid_abc")
    place = data.draw(st.integers(2, len(wrapped) - 2))
    other = data.draw(st.sampled_from("ABCDEFabcdef0123456789-_.=é \0"))
    changed = wrapped[:place] + other + wrapped[place + 1 :]
    if changed != wrapped:
        with pytest.raises(Foreign):
            seal.unwrap("cursor", changed)


@given(st.text(max_size=100))
def test_what_nobody_wrapped_is_refused(text: str) -> None:
    with pytest.raises(Foreign):
        Seal([b"key"]).unwrap("cursor", text)


def test_an_identifier_serves_its_purpose_only() -> None:
    seal = Seal([b"key"])
    with pytest.raises(Foreign):
        seal.unwrap("lease", seal.wrap("watch", 1, "x"))


def test_the_previous_key_stays_valid_and_the_one_before_does_not() -> None:
    wrapped = Seal([b"first"]).wrap("watch", 1, "x")
    assert Seal([b"second", b"first"]).unwrap("watch", wrapped).identifier == "x"
    with pytest.raises(Foreign):
        Seal([b"third", b"second"]).unwrap("watch", wrapped)
