"""Audit: writes a line of JSON for each request, with subject, operation, topic and outcome."""

from __future__ import annotations

import logging
import logging.handlers
import time
from typing import Literal

import msgspec

from base.clock import now_ms
from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response


class AuditConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`file`: the file for the lines (default: the gateway's log).

    If the file was moved away, a new file is created. `of`: the requests to log.
    """

    file: str | None = None
    of: Literal["writes", "all"] = "writes"


class Line(msgspec.Struct, omit_defaults=True):
    ts: int
    virtual_cluster: str
    subject: str | None
    origin: str
    session: str
    operation: str
    status: int
    ms: float
    route: str | None = None
    topic: str | None = None


class Audit:
    def __init__(self, log: logging.Logger, config: AuditConfig) -> None:
        self.log, self.config = log, config
        self.begun: dict[int, float] = {}  # start time by the identity of a request in flight

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        self.begun[id(context)] = time.perf_counter()
        return request

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        began = self.begun.pop(id(context), None)
        if operation.is_write or self.config.of == "all":
            line = Line(
                now_ms(),
                context.virtual_cluster_name,
                context.authenticated_subject.name,
                context.origin,
                context.session_id,
                operation.value,
                response.status,
                0.0 if began is None else round((time.perf_counter() - began) * 1000, 3),
                context.route,
                context.request.topic,
            )
            self.log.info(msgspec.json.encode(line).decode())
        return response


class AuditFactory:
    """Writes a line for each request."""

    def initialize(self, context: FilterFactoryContext, config: AuditConfig) -> tuple[logging.Logger, AuditConfig]:
        log = logging.getLogger(f"gateway.audit.{context.virtual_cluster_name}.{context.filter_name}.{context.route}")
        log.setLevel(logging.INFO)
        if config.file is not None:
            try:
                handler = logging.handlers.WatchedFileHandler(context.file(config.file), encoding="utf-8")
            except OSError as error:
                raise PluginConfigError(f"file: {config.file} cannot be written: {error.strerror}.") from error
            handler.setFormatter(logging.Formatter("%(message)s"))
            log.handlers, log.propagate = [handler], False
        return log, config

    def create_filter(self, context: FilterFactoryContext, data: tuple[logging.Logger, AuditConfig]) -> Audit:
        return Audit(*data)

    def close(self, data: tuple[logging.Logger, AuditConfig]) -> None:
        for handler in data[0].handlers[:]:
            data[0].removeHandler(handler)
            handler.close()
