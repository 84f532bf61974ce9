"""Audit: writes a line of JSON for each request, with subject, operation, topic and outcome, also if it was refused or failed."""

from __future__ import annotations

import logging
import logging.handlers
import time
from typing import Literal

import msgspec

from base.clock import now_ms
from gateway.api import FilterContext, FilterFactoryContext, Operation, PluginConfigError, Request, Response


class AuditConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The file of the lines, and the requests that get one."""

    file: str | None = None
    """The file of the lines, or the log of the gateway. A file that was moved away is made again."""
    of: Literal["writes", "all"] = "writes"
    """The requests that get a line."""


class AuditLine(msgspec.Struct, omit_defaults=True):
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


class AuditFilter:
    def __init__(self, log: logging.Logger, config: AuditConfig) -> None:
        self.log, self.config = log, config

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        context.kept = time.perf_counter()
        return request

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        if operation.is_write or self.config.of == "all":
            line = AuditLine(
                now_ms(),
                context.virtual_cluster_name,
                context.authenticated_subject.name,
                context.origin,
                context.session_id,
                operation.value,
                response.status,
                round((time.perf_counter() - context.kept) * 1000, 3),
                context.route,
                context.request.topic,
            )
            self.log.info(msgspec.json.encode(line).decode())
        return response


class AuditFactory:
    """Writes a line for each request."""

    def initialize(self, context: FilterFactoryContext, config: AuditConfig) -> tuple[logging.Logger, AuditConfig]:
        # Not from logging.getLogger: two generations of one filter would share it, and the old one closes its file.
        log = logging.Logger(f"gateway.audit.{context.virtual_cluster_name}.{context.filter_name}", logging.INFO)
        log.parent = logging.getLogger("gateway.audit")
        if config.file is not None:
            try:
                handler = logging.handlers.WatchedFileHandler(context.file(config.file), encoding="utf-8")
            except OSError as error:
                raise PluginConfigError(f"file: {config.file} cannot be written: {error.strerror}.") from error
            handler.setFormatter(logging.Formatter("%(message)s"))
            log.addHandler(handler)
            log.propagate = False
        return log, config

    def create_filter(self, context: FilterFactoryContext, data: tuple[logging.Logger, AuditConfig]) -> AuditFilter:
        return AuditFilter(*data)

    def close(self, data: tuple[logging.Logger, AuditConfig]) -> None:
        for handler in data[0].handlers:
            handler.close()
