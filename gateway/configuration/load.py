"""The configuration of a gateway: a file that is read and checked as a whole before use."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gateway.configuration.check import check
from gateway.configuration.document import Document, Fault
from gateway.configuration.document import Path as DocumentPath
from gateway.configuration.shapes import (
    ClusterDefinition,
    Definition,
    File,
    FilterDefinition,
    Plugins,
    RouterDefinition,
    Target,
    VirtualCluster,
)
from gateway.configuration.typed import convert


class Configuration(NamedTuple):
    """A file without faults: definitions by name, and typed plugin configurations.

    `fingerprint` is a hash of the file's values. Operators can compare two gateways by their fingerprints.
    """

    clusters: dict[str, ClusterDefinition]
    filters: dict[str, FilterDefinition]
    routers: dict[str, RouterDefinition]
    virtual_clusters: dict[str, VirtualCluster]
    fingerprint: str
    document: Document

    def line(self, kind: str, name: str, *path: str | int) -> int:
        """Returns the line of a definition, or of a value in a definition. `kind`: cluster, filter, router, virtual cluster."""
        return self.document.line((*self.path(kind, name), *path))

    def line_of_key(self, kind: str, name: str, said: str) -> int:
        """Returns the line for a plugin's fault. The text of the fault may begin with a key: `rules: …`."""
        key, colon, _ = said.partition(":")
        path = self.path(kind, name)
        paths = [(*path, "config", key), (*path, key)] if colon and key.isidentifier() else []
        return self.document.line(next((each for each in paths if self.document.has(each)), path))

    def path(self, kind: str, name: str) -> DocumentPath:
        section = "virtualClusters" if kind == "virtual cluster" else f"{kind}Definitions"
        names = [each["name"] for each in self.document.value[section]]
        return section, names.index(name)

    def reachable(self, virtual_cluster: str) -> list[Definition]:
        """Returns the definitions that serve a virtual cluster, including its own.

        If two configurations have equal definitions, a reload keeps the routers and connections of the virtual cluster.
        """
        start = self.virtual_clusters[virtual_cluster]
        found: dict[tuple[str, str], Definition] = {}

        def add_filters(names: list[str]) -> None:
            found.update({("filter", name): self.filters[name] for name in names})

        def follow(target: Target) -> None:
            if target.cluster is not None:
                found["cluster", target.cluster] = self.clusters[target.cluster]
            elif target.router is not None and ("router", target.router) not in found:
                router = found["router", target.router] = self.routers[target.router]
                for route in router.routes:
                    add_filters(route.filters)
                    follow(route.target)

        add_filters(start.filters)
        follow(start.target)
        return [start, *found.values()]


class Faulty(Exception):
    """A file with faults, which is not served. The text is a report with a line for each fault."""

    def __init__(self, file: Path, faults: list[Fault]) -> None:
        super().__init__("\n".join(f"{file}:{fault.line}: {fault.text}" for fault in sorted(faults)))
        self.faults = sorted(faults)


def load(file: Path, plugins: Plugins) -> Configuration:
    """Returns the configuration in a file. Raises Faulty."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Faulty(file, [Fault(1, f"Cannot read the file: {reason}.")]) from error
    document = Document(text)
    faults = document.faults
    written = None if faults else convert(document, document.value or {}, File, (), faults)
    if written is None:
        raise Faulty(file, faults)
    checked = check(document, written, plugins, file.parent, faults)
    if faults:
        raise Faulty(file, faults)
    return Configuration(
        {each.name: each for each in checked.cluster_definitions},
        {each.name: each for each in checked.filter_definitions},
        {each.name: each for each in checked.router_definitions},
        {each.name: each for each in checked.virtual_clusters},
        fingerprint(document.value),
        document,
    )


def fingerprint(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:12]
