"""The processes of `topics gateway serve`: one or several on one port, each with the whole configuration.

The first process only supervises (base/prefork.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from base import prefork
from base.descriptors import raise_limit
from base.refusal import Refusal
from gateway.configuration import keys
from gateway.rewrite.ids import Seal
from gateway.server import Gateway, loaded
from gateway.siblings import Siblings
from gateway.watched_file import WatchedFiles, stamp_or_none
from http1.acceptor import TlsContexts
from http1.server import bound

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # between two checks of the file
TELL_SECONDS = 1.0  # between two reports to the other processes


@dataclass(frozen=True)
class Listen:
    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    behind_proxy: bool = False

    async def check(self) -> None:
        """Raises Refusal if no process can listen on the address."""
        try:
            for each in await bound(self.host, self.port):
                each.close()
        except OSError as error:
            why = error.strerror or error
            raise Refusal(f"cannot listen on {self.host}, port {self.port} ({why}): set HOST and PORT.") from error

    def contexts(self) -> TlsContexts | None:
        """Returns a function that returns the TLS context of a new connection, or None without a certificate. Raises Refusal for
        unusable files.

        After a change of the files the context is a new one, which knows no sessions. So nobody continues a session that a
        removed authority of clients allowed.
        """
        if self.certificate is None:
            return None
        files = [each for each in (self.certificate, self.key, self.client_ca) if each is not None]
        try:
            watched = WatchedFiles(files, self.read)
        except (OSError, ValueError) as error:
            raise Refusal(f"invalid certificate files: {error}") from error
        return lambda: watched.value

    def read(self) -> ssl.SSLContext:
        assert self.certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def serve_all(file: Path, listen: Listen, processes: int) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code."""
    if keys.seal() is None:
        log.warning(
            "GATEWAY_KEY is not set: watch sessions and cursors through this gateway end with it. Give every gateway of this"
            " configuration the same key."
        )
    raise_limit()  # a stream needs two descriptors
    asyncio.run(listen.check())
    seal = keys.random_seal()
    if processes == 1:
        return uvloop.run(serve(file, listen, seal))
    listen.contexts()
    asyncio.run(check(file))
    return supervise(file, listen, seal, processes)


async def check(file: Path) -> None:
    """Reports a file with faults before any process starts. Otherwise each process would fail, again and again. Raises Faulty."""
    with loaded(file, keys.seal() or keys.random_seal()):
        pass


async def serve(file: Path, listen: Listen, seal: Seal, siblings: Siblings | None = None) -> int:
    """Runs one process. `seal` signs identifiers if no key is configured."""
    tls = listen.contexts()
    with loaded(file, keys.seal() or seal, siblings) as gateway:
        return await run(gateway, listen, tls)


async def run(gateway: Gateway, listen: Listen, tls: TlsContexts | None) -> int:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    sealing = keys.watched()

    def renew() -> None:
        if sealing is not None:
            gateway.seal.keys = sealing.accepted()
        gateway.renew()

    def reload() -> None:
        WatchedFiles.look_now()
        with contextlib.suppress(OSError, Refusal):
            gateway.seal.keys = (keys.seal() or gateway.seal).keys  # the previous key holds for a day
        renew()
        gateway.fault = ""  # the operator gets the report again
        gateway.reload()
        gateway.siblings.tell(gateway.told())

    loop.add_signal_handler(signal.SIGHUP, reload)
    port = await gateway.listen(listen.host, listen.port, tls=tls, behind_proxy=listen.behind_proxy)
    scheme = "http" if listen.certificate is None else "https"
    assert gateway.configuration is not None
    log.info("Serving configuration %s on %s://%s:%d", gateway.configuration.fingerprint, scheme, listen.host, port)
    watching = [loop.create_task(each) for each in (watch(gateway, renew), tell(gateway), gateway.check_streams())]
    await ended.wait()
    for task in watching:
        task.cancel()
    log.info("Stopping: streams end, requests finish")
    finished = await gateway.drain()
    gateway.siblings.tell(gateway.told())
    return 0 if finished else 1


async def tell(gateway: Gateway) -> None:
    """Reports to the other processes every second."""
    while True:
        gateway.siblings.tell(gateway.told())
        await asyncio.sleep(TELL_SECONDS)


async def watch(gateway: Gateway, look: Callable[[], None]) -> None:
    """Calls `look` every second, and reloads a file that is not the served version and stayed the same for one check.

    Each check reads a version with faults again, because a fault can pass without a change of the file, for example when a file
    descriptor is free again, or when a file is there that it names.
    """
    seen = stamp_or_none(gateway.file)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        look()
        now = stamp_or_none(gateway.file)
        if now == gateway.version:
            gateway.fault = ""
        elif now == seen:
            gateway.reload()
        seen = now


def supervise(file: Path, listen: Listen, seal: Seal, processes: int) -> int:
    """Runs several processes, with a folder for their reports to each other."""
    with tempfile.TemporaryDirectory(prefix="topics-gateway-", ignore_cleanup_errors=True) as name:
        folder, parent = Path(name), os.getpid()

        def work(slot: int) -> int:
            try:
                return uvloop.run(serve(file, listen, seal, Siblings(folder, slot)))
            finally:
                if os.getppid() != parent:  # the parent was killed, and so cannot remove the folder
                    shutil.rmtree(folder, ignore_errors=True)

        return prefork.run(processes, work, name="gateway", reloads=True, orphan_signal=signal.SIGTERM)
