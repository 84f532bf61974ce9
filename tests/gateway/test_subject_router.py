"""SubjectRouter: the route is that of the subject's roles now, whatever a server of another route gave out before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from gateway.api import Request, Response, Subject
from gateway.configuration.graph import RouterPlace
from gateway.configuration.keys import random_seal
from gateway.explain import DrySession
from gateway.proxy.calls import RoutedCall
from gateway.server import loaded
from tests.gateway.running import cluster, route

ROUTES = ("eu", "us")
CONFIGURATION = {
    "clusterDefinitions": [cluster(name, number) for number, name in enumerate(ROUTES, 1)],
    "routerDefinitions": [
        {
            "name": "by-role",
            "type": "SubjectRouter",
            "config": {"rules": [{"route": name, "roles": [name]} for name in ROUTES]},
            "routes": [route(name, number, cluster=name) for number, name in enumerate(ROUTES)],
        }
    ],
    "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "by-role"}}],
}
ASKED = {"wid": "/v0/watch/{}", "cursor": "/v0/topics/orders/state/keys?cursor={}"}


def test_a_node_is_reached_by_the_subjects_of_its_route_alone(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION))

    async def main() -> None:
        with loaded(file, random_seal()) as gateway:
            site = gateway.sites["all"]
            for role, node, status in (("eu", 0, 200), ("eu", 1, 403), ("us", 1, 200), ("us", 0, 403)):
                session = DrySession(site)
                call = RoutedCall(session, Request("GET", "/v0/topics").operation)
                call.subject = Subject("bob", (role,))
                assert isinstance(site.root, RouterPlace)
                addressed = site.root.node_for_id(node)
                answer = (await call.run(Request("GET", "/v0/topics"), addressed, None)).response
                assert answer is not None
                assert (answer.status, len(session.steps)) == (status, int(status == 200)), (role, node)

    asyncio.run(main())


@pytest.mark.parametrize(("kind", "path"), ASKED.items())
def test_an_identifier_leads_nowhere_without_the_role_that_it_was_given_to(
    tmp_path: Path, kind: str, path: str
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION))

    async def main() -> None:
        with loaded(file, random_seal()) as gateway:
            session = DrySession(gateway.sites["all"])

            async def answered(path: str, *roles: str) -> Response | None:
                target, _, query = path.partition("?")
                request = Request("GET", target, query)
                call = RoutedCall(session, request.operation)
                call.subject = Subject("bob", roles)
                session.steps.clear()
                return (await call.run(request, None, None)).response

            issuing = RoutedCall(session, Request("GET", "/v0/topics").operation)
            issuing.subject = Subject("bob", ("eu",))
            asked = path.format(issuing.wrap(kind, ("eu",), "own"))
            allowed = await answered(asked, "eu")
            assert allowed is not None
            assert (allowed.status, [step.split()[0] for step in session.steps]) == (200, ["eu"])
            refused = await answered(asked)
            assert refused is not None
            assert (refused.status, session.steps) == (403, [])

    asyncio.run(main())
