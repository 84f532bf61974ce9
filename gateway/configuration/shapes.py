"""The fields of a gateway's file. The rules for combinations of fields are in check.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]

# Where a filter can be: before the router of a virtual cluster, or on a route to a cluster or to another router.
Place = Literal["virtual cluster", "route to a cluster", "route to a router"]
EVERYWHERE: frozenset[Place] = frozenset(("virtual cluster", "route to a cluster", "route to a router"))


class Definition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the file. Equal parts of two files are equal."""


class NodeDefinition(Definition):
    """A server of a cluster. `url` has a scheme, a host and a port, but no path."""

    id: Id
    url: str


class Tls(Definition):
    """PEM files, relative to the configuration's folder.

    `ca`: the authorities that the gateway trusts (default: the system's store). `certificate` and `key`: the gateway's own
    certificate for the cluster.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key need each other: add the missing one.")


class Timeouts(Definition):
    """The longest time for a connection, and for the head of a node's answer."""

    connect_ms: Milliseconds = 1_000
    answer_ms: Milliseconds = 10_000


class KafkaSecurity(Definition):
    """The way into a Kafka cluster, in the words of Kafka. Files are relative to the configuration's folder."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | None = None
    password_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        login = (self.mechanism, self.username, self.password_file)
        if any(each is None for each in login) if self.protocol.startswith("sasl") else any(login):
            raise ValueError(
                "mechanism, username and passwordFile belong to the protocols sasl_plaintext and sasl_ssl, which need all three."
            )
        if not self.protocol.endswith("ssl") and (self.ca or self.certificate or self.key):
            raise ValueError("ca, certificate and key belong to the protocols ssl and sasl_ssl.")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key need each other: add the missing one.")


class KafkaTopicDefaults(Definition):
    """Settings of topics that are created through the gateway. Without a value, the brokers' default holds."""

    replication_factor: Annotated[int, Meta(ge=1, le=32767)] | None = None
    min_insync_replicas: Annotated[int, Meta(ge=1, le=32767)] | None = None


class KafkaDefinition(Definition):
    """A Kafka cluster in place of servers. `bootstrap_servers`: `HOST:PORT`, several with commas between."""

    bootstrap_servers: Annotated[str, Meta(min_length=1)]
    security: KafkaSecurity = msgspec.field(default_factory=KafkaSecurity)
    topic_defaults: KafkaTopicDefaults = msgspec.field(default_factory=KafkaTopicDefaults)


class ClusterDefinition(Definition):
    """A cluster: nodes that are servers, or a Kafka cluster.

    `add_keys`: the gateway adds an idempotency key to an append without a key, so that the append can be repeated. By default it
    does so for servers.
    """

    name: Name
    nodes: Annotated[list[NodeDefinition], Meta(min_length=1)] | None = None
    kafka: KafkaDefinition | None = None
    tls: Tls | None = None
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    add_keys: bool | None = None

    def __post_init__(self) -> None:
        exactly_one(nodes=self.nodes, kafka=self.kafka)
        if self.kafka is not None and (self.tls is not None or self.add_keys is not None):
            raise ValueError("tls and addKeys are for servers: kafka has its own `security`, and gets no added keys.")


class Target(Definition):
    """Exactly one of a cluster and a router."""

    cluster: str | None = None
    router: str | None = None

    def __post_init__(self) -> None:
        exactly_one(cluster=self.cluster, router=self.router)


class FilterDefinition(Definition):
    """A filter. `config` gets the type that the filter's factory declares, after the file is loaded."""

    name: Name
    type: str
    config: Any = msgspec.field(default_factory=dict)


class Route(Definition):
    name: Name
    id: Id
    target: Target
    filters: list[str] = []


class RouterDefinition(Definition):
    """A router. `config` gets the type that the router's factory declares, after the file is loaded."""

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
    """A virtual cluster. `without`: the ids of operations that the virtual cluster does not offer."""

    name: Name
    gateways: Annotated[list[Entry], Meta(min_length=1)]
    target: Target
    filters: list[str] = []
    without: list[str] = []


class File(Definition):
    """The whole file, as written."""

    virtual_clusters: Annotated[list[VirtualCluster], Meta(min_length=1)]
    cluster_definitions: list[ClusterDefinition] = []
    filter_definitions: list[FilterDefinition] = []
    router_definitions: list[RouterDefinition] = []


class PluginType(NamedTuple):
    """The facts about a type of router or filter that the check needs.

    `config`: the type of its configuration. `places`: the positions that a filter can have. `once`: a chain may have only one
    filter of the type.
    """

    config: Any
    places: frozenset[Place] = EVERYWHERE
    once: bool = False


class Plugins(NamedTuple):
    """The installed types of routers and filters, by `type`."""

    routers: Mapping[str, PluginType]
    filters: Mapping[str, PluginType]


def exactly_one(**given: object) -> None:
    """Raises ValueError unless exactly one of the fields is given."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        found = " and ".join(present) if present else "neither"
        raise ValueError(f"expected exactly one of {' and '.join(given)}, found {found}.")
