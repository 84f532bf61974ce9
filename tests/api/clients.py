"""The two ways into the server, alike for a test: real HTTP to a whole instance, and Django's test client."""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any

from django.test import Client

from tests.deadlines import DEADLINE


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code; the test fails when the answer is no error in the contract's shape."""
        answer = self.json
        assert set(answer) == {"error", "performance"}, answer
        assert set(answer["error"]) <= {"code", "message", "detail"}
        assert answer["error"]["message"]
        assert answer["performance"]["server_total_ms"] >= 0
        assert self.headers["content-type"] == "application/json"
        return str(answer["error"]["code"])

    @property
    def detail(self) -> Any:
        return self.json["error"]["detail"]


def check_declared(method: str, path: str, reply: Reply) -> None:
    """The schema names each refusal of a call by its code, as the call's declaration does."""
    from topics_project.urls import DESCRIBED  # this file is read before Django is set up
    from wire.documents.openapi import codes, refused_with

    for each in DESCRIBED.operations:
        if each.method == method and re.fullmatch(re.sub(r"<str:\w+>", "[^/]+", f"/{each.path}"), path.split("?")[0]):
            assert reply.json["error"]["code"] in codes(refused_with(each))[reply.status], f"{method} {path}"


class ApiClient:
    patience = DEADLINE  # seconds until a test says that no answer came

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        raise NotImplementedError

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """`body`: bytes as they are, anything else as JSON. Headers: authorization="…", content_type="…"."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent.setdefault("content-type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = self.send(method, path, body, sent)
        if reply.status in (400, 404, 409, 422):
            check_declared(method, path, reply)
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        return self.call("GET", path, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.call("PUT", path, {} if body is None else body, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.call("POST", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Reply:
        return self.call("DELETE", path, **headers)

    def append(self, topic: str, *data: Any, **more: Any) -> Reply:
        return self.post(f"/v0/topics/{topic}", {"records": [{"data": each} for each in data], **more})

    def diff(self, topic: str, **body: Any) -> Reply:
        return self.post(f"/v0/topics/{topic}/diff", body)


class HttpClient(ApiClient):
    """A running instance: what is plain to see goes through the event loop's live."""

    def __init__(self, port: int) -> None:
        self.port = port

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            # As every client sends a path: a raw ">" is no character of one, and the web server says so.
            connection.request(method, path.replace(">", "%3E"), body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


class ViewClient(ApiClient):
    """The DRF views, without a front before them."""

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        content_type = headers.pop("content-type", "")
        answer = Client(raise_request_exception=False).generic(
            method, path, body or b"", content_type=content_type, headers=headers
        )
        return Reply(answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, answer.content)
