"""Computes the operations that a virtual cluster offers, from the declarations of its routers and filters.

A plugin's factory can declare two mappings from Operation to a reason. `offers_not`: the plugin answers the operation with 501.
If all ways refuse an operation, the virtual cluster does not offer the operation. `breaks`: the operation passes, but loses a
guarantee of the server. Then the operator must give the operation up in the file (`without`). Otherwise the file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gateway.api import Operation
from gateway.configuration.graph import ClusterPlace, FilterPlace, RouterPlace, VirtualClusterPlace

GIVEN_UP = "the configuration of this virtual cluster excludes the operation (`without`)"


def not_offered(site: VirtualClusterPlace) -> dict[Operation, str]:
    """Returns the operations that no way of a virtual cluster serves, each with the reason."""
    found: dict[Operation, str] = dict.fromkeys(site.without, GIVEN_UP)
    for operation in Operation:
        why = refused_by(site.filters, operation) or refused_at(site.root, operation)
        if why is not None:
            found.setdefault(operation, why)
    return found


def refused_by(filters: list[FilterPlace], operation: Operation) -> str | None:
    return next((each.offers_not[operation] for each in filters if operation in each.offers_not), None)


def refused_at(place: ClusterPlace | RouterPlace, operation: Operation) -> str | None:
    """Returns the reason if all ways from a place refuse an operation. Returns None if any way serves the operation."""
    if isinstance(place, ClusterPlace):
        return place.cluster.engine.offers_not.get(operation) if place.cluster.engine is not None else None
    if operation in place.offers_not:
        return place.offers_not[operation]
    found = None
    for route in place.crossed(operation):
        found = refused_by(route.filters, operation) or refused_at(route.target, operation)
        if found is None:
            return None
    return found


class Broken(NamedTuple):
    """An operation that loses a guarantee. `way`: the routes from the virtual cluster to the plugin."""

    operation: Operation
    way: tuple[str, ...]
    plugin: FilterPlace | RouterPlace
    why: str

    def __str__(self) -> str:
        kind = "filter" if isinstance(self.plugin, FilterPlace) else "router"
        type_ = type(self.plugin.factory).__name__.removesuffix("Factory")
        where = " / ".join(self.way) or "before the first route"
        return f"{self.operation.value} breaks at the {kind} {self.plugin.name!r} ({type_}; {where}): {self.why}"


def broken(site: VirtualClusterPlace) -> list[Broken]:
    """Returns the operations that a virtual cluster offers although a plugin on a way breaks them."""
    return [each for operation in Operation if operation not in site.not_offered for each in breaking(site, operation)]


def breaking(site: VirtualClusterPlace, operation: Operation) -> Iterator[Broken]:
    def of(plugin: FilterPlace | RouterPlace, way: tuple[str, ...]) -> Iterator[Broken]:
        declared: Mapping[Operation, str] = plugin.factory.breaks
        if operation in declared:
            yield Broken(operation, way, plugin, declared[operation])

    def below(place: Any) -> Iterator[Broken]:
        if isinstance(place, RouterPlace) and refused_at(place, operation) is None:
            yield from of(place, place.way)
            for route in place.crossed(operation):
                if refused_by(route.filters, operation) is None:
                    for each in route.filters:
                        yield from of(each, (*place.way, route.name))
                    yield from below(route.target)

    for each in site.filters:
        yield from of(each, ())
    yield from below(site.root)


def line_to_add(site: VirtualClusterPlace, found: list[Broken]) -> str:
    """Returns the line that gives up the broken operations."""
    names = {operation.value for operation in site.without} | {each.operation.value for each in found}
    return f"without: [{', '.join(sorted(names))}]"
