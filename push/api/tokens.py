"""/api_tokens: the clients of the bus and their tokens. Only for the root key."""

from __future__ import annotations

from typing import Any

import msgspec

from base.clock import now_ms
from contract.operations import Operation
from push.api.bus import BUS
from push.bus.clients import add_client, clients, delete_client
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Call, Endpoint

NOTHING = Answer(204, b"")


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    token: str | None = None


class Token(msgspec.Struct):
    name: str
    token: str


@Endpoint(Operation.LIST_TOKENS, scope="root", api=BUS, answers={200: Token})
def list_tokens(call: Call[None, None]) -> Script[Answer]:
    """List all clients with their tokens. 204 if there are none."""
    known = yield from clients()
    if not known:
        return NOTHING
    return Answer(200, msgspec.json.encode([Token(each.name, each.token) for each in known]))


@Endpoint(Operation.ADD_TOKEN, scope="root", api=BUS, body=NewToken, answers={201: Token})
def add_token(call: Call[NewToken, None]) -> Script[Answer]:
    """Create a client. Without `token`, the server creates one."""
    made = yield from add_client(call.body.name, call.body.token, now_ms())
    return call.answer(Token(made.name, made.token), 201)


@Endpoint(Operation.DELETE_TOKEN, scope="root", api=BUS, answers={})
def delete_token(call: Call[Any, None], token: str) -> Script[Answer]:
    """Delete a token. The client's topics and its subscription remain."""
    yield from delete_client(token, now_ms())
    return NOTHING
