"""Node: sets the `node` of a client's appends and reads, so that a client without a node can use a mirror."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode

import msgspec

from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response
from gateway.rewrite.edits import Members, edited, encoded, is_absent

MOST_BYTES = 128  # of a node's name


class NodeConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The node of the requests."""

    name: str | None = None
    """The node."""
    from_subject: bool = False
    """The node is the subject's name. You need exactly one of the two."""
    force: bool = False
    """Replaces the client's own `node`, also of single records."""


class NodeFilter:
    def __init__(self, config: NodeConfig) -> None:
        self.config = config

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        node = context.authenticated_subject.name if self.config.from_subject else self.config.name
        if node is None:
            return request  # an anonymous client has no node
        if operation is Operation.LIST_RECORDS:
            return request.replace(query=self.query(request.query, node))
        if operation in (Operation.APPEND, Operation.READ, Operation.WATCH):
            return request.replace(body=edited(await request.body(), self.change(operation, node)))
        return request

    def query(self, query: str, node: str) -> str:
        pairs = parse_qsl(query, keep_blank_values=True)
        if any(name == "node" for name, _ in pairs) and not self.config.force:
            return query
        return urlencode([*(pair for pair in pairs if pair[0] != "node"), ("node", node)])

    def change(self, operation: Operation, node: str) -> Callable[[Members], None]:
        def set_node(members: Members) -> None:
            if self.config.force or is_absent(members, "node"):
                members["node"] = encoded(node)
            if operation is Operation.APPEND and self.config.force and "records" in members:
                members["records"] = without_nodes(members["records"])

        return set_node


def without_nodes(records: msgspec.Raw) -> msgspec.Raw:
    """Returns the records without their own nodes. All other members keep their bytes."""
    try:
        found = msgspec.json.decode(records, type=list[Members])
    except msgspec.MsgspecError:
        return records
    for record in found:
        record.pop("node", None)
    return encoded(found)


class NodeFactory:
    """Sets the `node` of appends and of reads. Reads with a `node` exclude the client's own records."""

    def initialize(self, context: FilterFactoryContext, config: NodeConfig) -> NodeConfig:
        if (config.name is not None) == config.from_subject:
            raise PluginConfigError("expected exactly one of name and fromSubject.")
        if config.name is not None and not 0 < len(config.name.encode()) <= MOST_BYTES:
            raise PluginConfigError(f"name: expected 1 to {MOST_BYTES} bytes.")
        return config

    def create_filter(self, context: FilterFactoryContext, data: NodeConfig) -> NodeFilter:
        return NodeFilter(data)
