"""`topics gateway serve|check|explain FILE` (docs/gateway.md)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from base.refusal import Refusal
from gateway import explain as explaining
from gateway import keys
from gateway.config import Faulty
from gateway.process import Listen, serve_all
from gateway.server import Gateway

FILE = click.Path(path_type=Path)


@click.group(help="Several topics servers behind one address.")
def program() -> None:
    pass


@program.command(help="Serve a configuration on HOST (127.0.0.1) and PORT (4100). SIGHUP or a changed file reloads it.")
@click.argument("file", type=FILE)
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="processes on the same port"
)
@click.option("--tls-certificate", type=FILE, help="PEM file: serve https with this certificate")
@click.option("--tls-key", type=FILE, help="PEM file: the certificate's key")
@click.option("--tls-client-ca", type=FILE, help="PEM file: clients may show certificates of this authority")
def serve(
    file: Path, processes: int, tls_certificate: Path | None, tls_key: Path | None, tls_client_ca: Path | None
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    port = os.environ.get("PORT", "4100")
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise Refusal(f"PORT={port} is no port: expected a number from 0 to 65535.")
    if (tls_certificate is None) != (tls_key is None) or (tls_client_ca is not None and tls_certificate is None):
        raise Refusal("--tls-certificate and --tls-key come together, and --tls-client-ca needs both.")
    listen = Listen(os.environ.get("HOST", "127.0.0.1"), int(port), tls_certificate, tls_key, tls_client_ca)
    warn(loaded(file, listen))
    sys.exit(serve_all(file, listen, processes))


@program.command(help="Check a configuration and print its graph.")
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    async def run() -> None:
        gateway = Gateway(file, keys.random_seal())
        warnings = gateway.load()
        assert gateway.configuration is not None
        warn([f"{file}:{each.line}: {each.text}" for each in warnings])
        print(f"configuration {gateway.configuration.fingerprint}")
        print("\n".join(explaining.graph(gateway.sites)))

    asyncio.run(run())


@program.command(help="Print the way that a request takes, and why: topics gateway explain FILE GET /v0/topics/orders")
@click.argument("file", type=FILE)
@click.argument("method")
@click.argument("path")
@click.option("--as", "subject", help="who asks (default: an anonymous client)")
@click.option("--virtual-cluster", help="of several, the one that is asked (default: the first)")
def explain(file: Path, method: str, path: str, subject: str | None, virtual_cluster: str | None) -> None:
    async def run() -> None:
        gateway = Gateway(file, keys.random_seal())
        gateway.load()
        name = virtual_cluster or next(iter(gateway.sites))
        if name not in gateway.sites:
            raise Refusal(f"there is no virtual cluster {name!r}: expected one of {', '.join(gateway.sites)}.")
        print("\n".join(await explaining.explain(gateway.sites[name], method.upper(), path, subject)))

    asyncio.run(run())


def loaded(file: Path, listen: Listen) -> list[str]:
    """Check the file and the certificates once, before any process is started. Returns the warnings. Raises Faulty, Refusal."""

    async def run() -> list[str]:
        gateway = Gateway(file, keys.seal() or keys.random_seal())
        return [f"{file}:{each.line}: {each.text}" for each in gateway.load()]

    listen.context()
    return asyncio.run(run())


def warn(warnings: Sequence[str]) -> None:
    for each in warnings:
        print(f"warning: {each}", file=sys.stderr)


def main(arguments: Sequence[str], called: str) -> None:
    """Do what the arguments behind `gateway` say. Raises SystemExit."""
    try:
        program.main(list(arguments), prog_name=called)
    except (Faulty, Refusal) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
