"""Prefix: adds a prefix to a client's names.

The client sees only topics and routers with the prefix, but without the prefix.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response
from gateway.rewrite.identifiers import parameter, with_parameter
from gateway.rewrite.names import (
    BUS,
    UNKNOWN,
    of_owner,
    prefixed_at_server,
    quotable,
    renamed_request,
    renamed_response,
)

# Prefix of a topic's name, with room for the rest of the name.
BEGINNING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class PrefixConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The part of the server's names that clients do not see."""

    prefix: str
    """1 to 200 characters that can begin a topic's name."""


class Prefix:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.renaming = prefix, prefixed_at_server(prefix)

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        renamed = await renamed_request(request, self.renaming)
        if operation in (Operation.LIST_TOPICS, Operation.LIST_ROUTERS):
            wanted = self.prefix + (parameter(request.query, "prefix") or "")
            return renamed.replace(query=with_parameter(renamed.query, "prefix", wanted))
        return renamed

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        response = await of_owner(context.request, response, self.renaming, context.send_request)
        asked = [self.prefix + name for name in await quotable(context.request, response)]
        return await renamed_response(operation, response, self.renaming, asked)


class PrefixFactory:
    """Renames topics and routers both ways: in paths, bodies, frames, ids and errors."""

    offers_not: ClassVar = {
        **UNKNOWN,
        **dict.fromkeys(BUS, "the filter Prefix renames topics, but cannot rename topics of the push bus"),
        Operation.GET_METRICS: "metrics name topics and routers without the prefix: ask the server itself",
    }

    def initialize(self, context: FilterFactoryContext, config: PrefixConfig) -> str:
        if BEGINNING.fullmatch(config.prefix) is None:
            raise PluginConfigError(f"invalid prefix {config.prefix!r}: expected the start of a topic's name.")
        return config.prefix

    def create_filter(self, context: FilterFactoryContext, data: str) -> Prefix:
        return Prefix(data)
