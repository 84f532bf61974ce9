"""The processes of `topics gateway serve`: one or several on one port, each with the whole configuration.

The first process only supervises (base/prefork.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import shutil
import signal
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop

from base import prefork
from base.refusal import Refusal
from gateway import keys
from gateway.ids import Seal
from gateway.server import Gateway
from gateway.siblings import Siblings

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

    def context(self) -> ssl.SSLContext | None:
        """Returns the TLS context, or None without a certificate. Raises Refusal for unusable files."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:
            raise Refusal(f"invalid certificate files: {error}") from error
        return context


def serve_all(file: Path, listen: Listen, processes: int) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code."""
    if keys.seal() is None:
        log.warning(
            "GATEWAY_KEY is not set: watch sessions and cursors through this gateway end with it. Give every gateway of this"
            " configuration the same key."
        )
    # A stream needs two descriptors. The soft limit is often 1,024, for programs that use select.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    seal = keys.random_seal()
    if processes == 1:
        return uvloop.run(serve(file, listen, seal))
    return supervise(file, listen, seal, processes)


async def serve(file: Path, listen: Listen, seal: Seal, siblings: Siblings | None = None) -> int:
    """Runs one process. `seal` signs identifiers if no key is configured."""
    gateway = Gateway(file, keys.seal() or seal, siblings=siblings)
    gateway.load()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    def reload() -> None:
        with contextlib.suppress(Refusal):
            gateway.seal = keys.seal() or seal
        gateway.reload()
        gateway.siblings.tell(gateway.told())

    loop.add_signal_handler(signal.SIGHUP, reload)
    port = await gateway.listen(listen.host, listen.port, tls=listen.context())
    scheme = "http" if listen.certificate is None else "https"
    assert gateway.configuration is not None
    log.info("Serving configuration %s on %s://%s:%d", gateway.configuration.fingerprint, scheme, listen.host, port)
    watching = [loop.create_task(watch(file, reload)), loop.create_task(tell(gateway))]
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


async def watch(file: Path, changed: object) -> None:
    """Calls `changed` after the file changed and then stayed the same for one check."""
    assert callable(changed)
    served = seen = stamp(file)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = stamp(file)
        if now == seen != served:
            served = seen
            changed()
        seen = now


def stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


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
