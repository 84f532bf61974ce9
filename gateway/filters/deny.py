"""Deny: refuses requests by operation, topic, subject or role, with 403."""

from __future__ import annotations

import msgspec

from base.errors import Forbidden
from base.patterns import is_pattern, matches, overlap
from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response, Subject
from gateway.rewrite.names import OF_ROUTERS, UNKNOWN, topics_of

OPERATIONS = {"reads", "writes", "bus", *(each.value for each in Operation)}


class DenyRule(msgspec.Struct, forbid_unknown_fields=True):
    """A rule refuses a request if all its conditions match."""

    operations: list[str] | None = None
    """Ids of [the schema](wire.md), or `reads`, `writes`, `bus`."""
    topics: list[str] | None = None
    """Topics and routers that a call names, and every topic in a redrive without `queue`. A name may end in `*`. Lists show
    all names."""
    subjects: list[str] | None = None
    """Names of subjects, which may end in `*`."""
    roles: list[str] | None = None
    """The subject has one of them."""
    reason: str = "the gateway does not allow this"
    """The message for the client."""

    def refuses(self, operation: Operation, names: set[str], subject: Subject) -> bool:
        return (
            (self.operations is None or any(is_of(operation, each) for each in self.operations))
            and (self.topics is None or any(overlap(each, name) for each in self.topics for name in names))
            and (self.subjects is None or any(matches(each, subject.name or "") for each in self.subjects))
            and (self.roles is None or bool(set(self.roles) & set(subject.roles)))
        )


class DenyConfig(msgspec.Struct, forbid_unknown_fields=True):
    rules: list[DenyRule]
    """The rules. A request is refused by the first that matches."""


class Deny:
    def __init__(self, rules: list[DenyRule]) -> None:
        self.rules = rules
        self.names_topics = any(rule.topics is not None for rule in rules)

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Raises Forbidden if a rule matches."""
        names = await names_in(request) if self.names_topics else set()
        for rule in self.rules:
            if rule.refuses(operation, names, context.authenticated_subject):
                raise Forbidden(f"{operation.value} is refused: {rule.reason}.")
        return request


class DenyFactory:
    """Refuses requests by operation, topic, subject or role."""

    offers_not = UNKNOWN

    def initialize(self, context: FilterFactoryContext, config: DenyConfig) -> list[DenyRule]:
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

    def create_filter(self, context: FilterFactoryContext, data: list[DenyRule]) -> Deny:
        return Deny(data)


def is_of(operation: Operation, wanted: str) -> bool:
    """Returns whether an operation is this operation, or belongs to this group."""
    if wanted == "reads":
        return operation.is_read
    if wanted == "writes":
        return operation.is_write
    return operation.is_bus if wanted == "bus" else operation.value == wanted


async def names_in(request: Request) -> set[str]:
    """Returns the topics and routers that a request names. A topic of the push bus also has the name of its log."""
    names = set(await topics_of(request))
    if request.operation.is_bus:
        names |= {f"bus:{name}" for name in names}
    if request.operation in OF_ROUTERS and request.name is not None:
        names.add(request.name)
    return names
