"""The fields of a gateway's file. The rules for their combinations are in check.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]

# Where a filter may stand: before the router of a virtual cluster, or on a route to a cluster or to another router.
Place = Literal["virtual cluster", "route to a cluster", "route to a router"]
EVERYWHERE: frozenset[Place] = frozenset(("virtual cluster", "route to a cluster", "route to a router"))


class Definition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the file. Equal parts of two files are equal."""


class Node(Definition):
    """A server of a cluster. `url` has a scheme, a host and a port, and no path."""

    id: Id
    url: str


class Tls(Definition):
    """Files in PEM, relative to the configuration's folder. `ca`: whom the gateway trusts (default: the system's store).
    `certificate` and `key`: what the gateway shows to the cluster."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key come together: add the other one.")


class Timeouts(Definition):
    """How long a node may take for a connection, and for the head of an answer."""

    connect_ms: Milliseconds = 1_000
    answer_ms: Milliseconds = 10_000


class Cluster(Definition):
    """`add_keys`: an append without an idempotency key gets one here, so that it can be sent again."""

    name: Name
    nodes: Annotated[list[Node], Meta(min_length=1)]
    tls: Tls | None = None
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    add_keys: bool = True


class TargetCluster(Definition):
    """The older form: a cluster that is written into its virtual cluster."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    tls: Tls | None = None
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)


class Target(Definition):
    """Exactly one of the two."""

    cluster: str | None = None
    router: str | None = None

    def __post_init__(self) -> None:
        exactly_one(cluster=self.cluster, router=self.router)


class FilterDefinition(Definition):
    """`config` is of the type that the filter's factory asks for, once the file is loaded."""

    name: Name
    type: str
    config: Any = msgspec.field(default_factory=dict)


class Route(Definition):
    name: Name
    id: Id
    target: Target
    filters: list[str] = []


class RouterDefinition(Definition):
    """`config` is of the type that the router's factory asks for, once the file is loaded."""

    name: Name
    type: str
    routes: Annotated[list[Route], Meta(min_length=1)]
    config: Any = msgspec.field(default_factory=dict)


class Entry(Definition):
    """An address of a virtual cluster: a host name, or a prefix of the path."""

    host: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        exactly_one(host=self.host, prefix=self.prefix)


class VirtualCluster(Definition):
    """`without`: the ids of operations that the virtual cluster does not offer."""

    name: Name
    gateways: Annotated[list[Entry], Meta(min_length=1)]
    target: Target | None = None
    target_cluster: TargetCluster | None = None
    filters: list[str] = []
    without: list[str] = []

    def __post_init__(self) -> None:
        exactly_one(target=self.target, targetCluster=self.target_cluster)


class File(Definition):
    """The whole file, as it is written."""

    virtual_clusters: Annotated[list[VirtualCluster], Meta(min_length=1)]
    cluster_definitions: list[Cluster] = []
    filter_definitions: list[FilterDefinition] = []
    router_definitions: list[RouterDefinition] = []


class PluginType(NamedTuple):
    """The facts that the check needs of a kind of router or filter.

    `config`: the type of its configuration. `places` and `once` are a filter's: where it may stand, and whether a chain
    may hold one of its kind only.
    """

    config: Any
    places: frozenset[Place] = EVERYWHERE
    once: bool = False


class Plugins(NamedTuple):
    """The kinds of routers and filters that are installed, by the name that `type` gives."""

    routers: Mapping[str, PluginType]
    filters: Mapping[str, PluginType]


def exactly_one(**given: object) -> None:
    """Raises ValueError unless one of two fields is given."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        found = " and ".join(present) if present else "neither"
        raise ValueError(f"expected exactly one of {' and '.join(given)}, found {found}.")
