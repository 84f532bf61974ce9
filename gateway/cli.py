"""`topics gateway serve|check|explain|migrate FILE` (docs/gateway.md)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import click

from base.errors import TopicsError
from base.flag import flag
from base.refusal import Refusal
from gateway import explain as explaining
from gateway.configuration import keys
from gateway.configuration.graph import RouterPlace, VirtualClusterPlace, places
from gateway.configuration.load import Faulty
from gateway.process import Listen, serve_all
from gateway.proxy.background import OwnRequests
from gateway.routers.migrate import steps as migration
from gateway.routers.migrate.moves import Moves
from gateway.server import loaded

FILE = click.Path(path_type=Path)


@click.group(help="Several topics servers behind one address.")
def program() -> None:
    pass


@program.command(help="Serve a configuration on HOST (127.0.0.1) and PORT (4100). SIGHUP or a changed file reloads it.")
@click.argument("file", type=FILE)
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="processes on the same port"
)
@click.option("--tls-certificate", type=FILE, help="PEM file with the certificate for https")
@click.option("--tls-key", type=FILE, help="PEM file with the key of the certificate")
@click.option("--tls-client-ca", type=FILE, help="PEM file with the authority for certificates of clients")
def serve(
    file: Path, processes: int, tls_certificate: Path | None, tls_key: Path | None, tls_client_ca: Path | None
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    port = os.environ.get("PORT", "4100")
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise Refusal(f"Invalid PORT={port}: expected a number from 0 to 65535.")
    if (tls_certificate is None) != (tls_key is None) or (tls_client_ca is not None and tls_certificate is None):
        raise Refusal(
            "--tls-certificate and --tls-key need each other, and --tls-client-ca needs both: add the missing option."
        )
    host, behind_proxy = os.environ.get("HOST", "127.0.0.1"), flag("GATEWAY_TLS_PROXY", False)
    listen = Listen(host, int(port), tls_certificate, tls_key, tls_client_ca, behind_proxy)
    sys.exit(serve_all(file, listen, processes))


@program.command(help="Check a configuration and print its graph.")
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    async def run() -> None:
        with loaded(file, keys.random_seal()) as gateway:
            assert gateway.configuration is not None
            print(f"configuration {gateway.configuration.fingerprint}")
            print("\n".join(explaining.graph(gateway.sites)))

    asyncio.run(run())


@program.command(
    help="Print the path of a request through the gateway, and why: topics gateway explain FILE GET /v0/topics/orders"
)
@click.argument("file", type=FILE)
@click.argument("method")
@click.argument("path")
@click.option("--as", "subject", help="subject of the client (default: an anonymous client)")
@click.option("--virtual-cluster", help="virtual cluster that gets the request (default: the first)")
def explain(file: Path, method: str, path: str, subject: str | None, virtual_cluster: str | None) -> None:
    async def run() -> None:
        with loaded(file, keys.random_seal()) as gateway:
            name = virtual_cluster or next(iter(gateway.sites))
            if name not in gateway.sites:
                raise Refusal(f"virtual cluster {name!r} does not exist: expected one of {', '.join(gateway.sites)}.")
            print("\n".join(await explaining.explain(gateway.sites[name], method.upper(), path, subject)))

    asyncio.run(run())


@program.command(
    help="Move a live topic of a MigrateRouter to its other server. After a kill, run the command again: it continues."
)
@click.argument("file", type=FILE)
@click.argument("topic")
@click.option("--virtual-cluster", help="the virtual cluster, if several may move the topic")
@click.option("--mirror", is_flag=True, help="copy and follow the topic until Ctrl-C, and do not move it yet")
@click.option(
    "--back", is_flag=True, help="end the move before the topic has moved: delete the copy, let clients write again"
)
def migrate(file: Path, topic: str, virtual_cluster: str | None, mirror: bool, back: bool) -> None:
    if mirror and back:
        raise Refusal("--mirror and --back exclude each other: choose one.")

    async def run() -> None:
        with loaded(file, keys.random_seal()) as gateway:
            context, moves = the_migration(gateway.sites, topic, virtual_cluster)
            if back:
                await migration.take_back(context, topic, moves.source, moves.dest)
                print(f"{topic}: the move was taken back; the topic stays on the route {moves.source!r}")
                return
            shown = 0.0
            async with aclosing(migration.migrate(context, topic, moves.source, moves.dest, flip=not mirror)) as steps:
                async for step in steps:
                    if step.moved or time.monotonic() - shown >= 1:
                        shown = time.monotonic()
                        print(f"{topic}: {step}", flush=True)

    try:
        asyncio.run(run())
    except TopicsError as error:
        raise Refusal(f"{topic}: {error.message}.") from error
    except KeyboardInterrupt:
        raise Refusal(
            f"{topic}: stopped. To continue, run the command again. To end the move, run it with --back."
        ) from None


def the_migration(
    sites: Mapping[str, VirtualClusterPlace], topic: str, virtual_cluster: str | None
) -> tuple[OwnRequests, Moves]:
    """Returns the context for requests and the moves of the MigrateRouter that may move the topic.

    Raises Refusal unless exactly one such router exists.
    """
    found = [
        (site, place)
        for site in sites.values()
        for place in places(site)
        if isinstance(place, RouterPlace) and isinstance(place.data, Moves) and topic in place.data.topics
        if virtual_cluster in (None, site.name)
    ]
    if not found:
        raise Refusal(f"no MigrateRouter has the topic {topic!r}: add the topic under `topics` in the router's config.")
    if len({site.name for site, _ in found}) > 1:
        names = ", ".join(site.name for site, _ in found)
        raise Refusal(f"several virtual clusters may move {topic!r} ({names}): choose one with --virtual-cluster.")
    site, place = found[0]
    assert isinstance(place, RouterPlace)
    return OwnRequests(site, place), place.data


def main(arguments: Sequence[str], called: str) -> None:
    """Runs the arguments after `gateway`. Raises SystemExit."""
    try:
        program.main(list(arguments), prog_name=called)
    except (Faulty, Refusal) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
