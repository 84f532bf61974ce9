"""Deny: refuses requests by operation, topic, subject or role, with 403."""

from __future__ import annotations

from typing import Any

import msgspec

from base.errors import Forbidden
from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response, Subject
from gateway.patterns import is_pattern, matches

OPERATIONS = {"reads", "writes", "bus", *(each.value for each in Operation)}


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """A request is refused if all conditions of the rule match.

    `topics` and `subjects` are names, or prefixes that end in `*`. `operations` are ids of the schema, or one of reads, writes
    and bus.
    """

    operations: list[str] | None = None
    topics: list[str] | None = None
    subjects: list[str] | None = None
    roles: list[str] | None = None
    reason: str = "the gateway does not allow this"

    def refuses(self, operation: Operation, names: set[str], subject: Subject) -> bool:
        return (
            (self.operations is None or any(is_of(operation, each) for each in self.operations))
            and (self.topics is None or any(matches(each, name) for each in self.topics for name in names))
            and (self.subjects is None or any(matches(each, subject.name or "") for each in self.subjects))
            and (self.roles is None or bool(set(self.roles) & set(subject.roles)))
        )


class DenyConfig(msgspec.Struct, forbid_unknown_fields=True):
    rules: list[Rule]


class Deny:
    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Raises Forbidden if a rule matches."""
        names = await names_in(request)
        for rule in self.rules:
            if rule.refuses(operation, names, context.authenticated_subject):
                raise Forbidden(f"{operation.value} is refused: {rule.reason}.")
        return request

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        return response


class DenyFactory:
    """Refuses requests by operation, topic, subject or role."""

    def initialize(self, context: FilterFactoryContext, config: DenyConfig) -> list[Rule]:
        if not config.rules:
            raise PluginConfigError("rules: expected at least one rule.")
        for rule in config.rules:
            for each in rule.operations or ():
                if each not in OPERATIONS:
                    raise PluginConfigError(f"rules: operation {each!r} does not exist.")
            for each in [*(rule.topics or ()), *(rule.subjects or ())]:
                if not is_pattern(each):
                    raise PluginConfigError(f"rules: {each!r} has a * in the middle: expected * only at the end.")
        return config.rules

    def create_filter(self, context: FilterFactoryContext, data: list[Rule]) -> Deny:
        return Deny(data)

    def close(self, data: list[Rule]) -> None: ...


def is_of(operation: Operation, wanted: str) -> bool:
    """Returns whether an operation is this operation, or belongs to this group."""
    if wanted == "reads":
        return operation.is_read
    if wanted == "writes":
        return operation.is_write
    return operation.is_bus if wanted == "bus" else operation.value == wanted


async def names_in(request: Request) -> set[str]:
    """Returns the topics and routers in a request's path, and in the body of a watch or a router."""
    names = {name for name in (request.topic, request.name) if name is not None}
    if request.operation in (Operation.WATCH, Operation.PUT_ROUTER):
        try:
            body = msgspec.json.decode(await request.body(), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return names  # the server refuses the body
        names |= {body[name] for name in ("source", "dest") if isinstance(body.get(name), str)}
        if isinstance(body.get("topics"), dict):
            names |= set(body["topics"])
    return names
