"""Webhooks in both clients: a receiver knows what the server signed, and the calls of a webhook work."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from topics_client import AsyncTopics, Topics, errors
from topics_client.webhooks import InvalidSignature, verified

from push.webhooks.signing import key_of, new_secret, signature
from tests.clients.proxy import proxy
from tests.clients.test_javascript import part
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.watch.wire import Api, new_name

# The example of the specification.
PUBLIC_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PUBLIC = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
SECRET, OTHER = new_secret(), new_secret()
BODY = '{"topic":"orders","$seq":1,"data":"é"}'.encode()
NODE = pytest.param("node", marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js"))


class Call(NamedTuple):
    """A call, and whether a receiver with SECRET takes it."""

    headers: dict[str, str]
    body: bytes
    is_taken: bool


def headers(body: bytes, *secrets: str, ago: int = 0) -> dict[str, str]:
    ts = int(time.time()) - ago
    signed = signature([key_of(each) for each in secrets], "orders:1", ts, body).decode()
    return {"webhook-id": "orders:1", "webhook-timestamp": str(ts), "webhook-signature": signed}


def calls(later: int = 0) -> list[Call]:
    """`later`: the most seconds until the receiver looks at them."""
    good = headers(BODY, SECRET)
    return [
        Call(good, BODY, True),
        Call(headers(BODY, OTHER, SECRET), BODY, True),  # while the secret is rotated
        Call(headers(BODY, SECRET, ago=299 - later), BODY, True),
        Call(headers(BODY, SECRET, ago=-299), BODY, True),
        Call(headers(BODY, SECRET, ago=302), BODY, False),
        Call(headers(BODY, SECRET, ago=-302 - later), BODY, False),
        Call(headers(BODY, OTHER), BODY, False),
        Call(good, BODY.replace(b"1", b"2"), False),
        Call({**good, "webhook-id": "orders:2"}, BODY, False),
        Call({**good, "webhook-timestamp": str(int(good["webhook-timestamp"]) - 1)}, BODY, False),
        Call({**good, "webhook-timestamp": "now"}, BODY, False),
        Call({**good, "webhook-signature": good["webhook-signature"].replace("v1,", "v2,")}, BODY, False),
        Call({**good, "webhook-signature": "v1,"}, BODY, False),
        Call({**good, "webhook-signature": "v1,é?"}, BODY, False),
        *(Call({name: value for name, value in good.items() if name != gone}, BODY, False) for gone in good),
    ]


def in_python(given: list[Call], secret: str | list[str], max_age: float) -> list[Any]:
    def outcome(call: Call) -> Any:
        try:
            return verified(secret, {name.title(): value for name, value in call.headers.items()}, call.body, max_age)
        except InvalidSignature:
            return None

    return [outcome(each) for each in given]


def in_node(given: list[Call], secret: str | list[str], max_age: float) -> list[Any]:
    sent = [{"headers": each.headers, "body": each.body.decode()} for each in given]
    found: list[Any] = part(
        "http://localhost", "verify", json.dumps(secret), 0, json.dumps({"maxAgeS": max_age, "calls": sent})
    )
    return found


VERIFIERS = {"python": in_python, "node": in_node}


@pytest.mark.parametrize("language", ["python", NODE])
def test_a_receiver_takes_what_the_server_signed_and_nothing_else(language: str) -> None:
    given, verify = calls(0 if language == "python" else 30), VERIFIERS[language]
    assert verify(given, SECRET, 300) == [json.loads(BODY) if each.is_taken else None for each in given]
    assert verify([Call(headers(BODY, OTHER), BODY, True)], [SECRET, OTHER], 300) == [json.loads(BODY)]
    public = Call(PUBLIC, b'{"test": 2432232314}', True)
    assert verify([public], PUBLIC_SECRET, 1e12) == [{"test": 2432232314}]
    assert verify([public], PUBLIC_SECRET, 300) == [None]


LIBRARY = """
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
const { secret, calls } = JSON.parse(readFileSync(0));
const outcomes = calls.map(({ headers, body }) => {
  try {
    return new Webhook(secret).verify(body, headers);
  } catch {
    return null;
  }
});
console.log(JSON.stringify(outcomes));
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js")
def test_the_library_of_npm_takes_what_the_server_signed(tmp_path: Path) -> None:
    install = ["npm", "install", "--silent", "--fetch-retries=1", "--no-audit", "--no-fund", "standardwebhooks@1"]
    if subprocess.run(install, cwd=tmp_path, capture_output=True, timeout=2 * DEADLINE, check=False).returncode:
        pytest.skip("NOT TRIED: the registry of npm is not reachable")
    (tmp_path / "verify.mjs").write_text(LIBRARY)
    given = calls(30)
    sent = [{"headers": each.headers, "body": each.body.decode()} for each in given]
    said = json.dumps({"secret": SECRET, "calls": sent})
    done = subprocess.run(
        ["node", "verify.mjs"], cwd=tmp_path, input=said, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert json.loads(done.stdout) == [json.loads(BODY) if each.is_taken else None for each in given]


def test_a_secret_that_is_none_is_the_callers_fault() -> None:
    with pytest.raises(ValueError, match="expected whsec_ and base64"):
        verified("whsec_?", headers(BODY, SECRET), BODY)


def topic_with_records(server: Instance) -> str:
    topic = new_name()
    Api(server.port).append(topic, 1, 2, 3)
    return topic


def test_the_calls_of_a_webhook(server: Instance) -> None:
    topic, name = topic_with_records(server), new_name("hook")
    with Topics(server.url) as topics:
        webhook = topics.webhook(name)
        made = webhook.put("https://localhost:1/hooks", [topic], **{"from": "earliest"}, order="none")
        assert made["created"]
        assert webhook.pause()["state"] == "paused"
        assert [each["webhook"] for each in topics.webhooks(name)] == [name]
        with pytest.raises(errors.Refused, match="paused"):
            webhook.test()
        assert webhook.resume()["state"] == "running"
        webhook.test()
        wait_for_a_call(webhook.deliveries)
        assert webhook.deliveries(limit=1, state="delivered") == []
        assert webhook.rotate() != made["secret"]
        assert webhook.replay(failed=True, dry_run=True) == 0
        assert webhook.info()["webhook"] == name
        assert webhook.delete()["deleted"]
        with pytest.raises(errors.NotFound):
            webhook.info()


@pytest.mark.parametrize("language", ["python", NODE])
def test_a_client_makes_the_secret_of_a_rotation(server: Instance, language: str) -> None:
    """So the call can be sent again if its answer was lost."""
    name = new_name("hook")
    with Topics(server.url) as topics:
        topics.webhook(name).put("https://localhost:1/hooks", [new_name()])
    with proxy(server.port) as seen, Topics(seen.url) as topics:
        secret = topics.webhook(name).rotate() if language == "python" else part(seen.url, "rotate", "-", 0, name)
        assert b'"secret":"%b"' % secret.encode() in b"".join(seen.sent)


@pytest.mark.parametrize("language", ["python", NODE])
def test_a_replay_of_failed_records_keeps_to_its_topic(server: Instance, language: str) -> None:
    first, name = topic_with_records(server), new_name("hook")
    later = f"{first}.later"
    Api(server.port).append(later, 1)
    with Topics(server.url) as topics:
        webhook = topics.webhook(name)
        once = {"from": "earliest", "retry": {"max_attempts": 1}, "on_exhausted": "skip"}
        webhook.put("https://localhost:1/hooks", [first, later], **once)
        until(lambda: webhook.info()["dead_total"] == 4, "the records to be given up")
        if language == "python":
            counts = [webhook.replay(failed=True, dry_run=True, **of) for of in ({"topic": first}, {})]
        else:
            counts = part(server.url, "replay", first, 0, name)
        assert counts == [3, 4]
        webhook.delete()


def wait_for_a_call(deliveries: Any) -> None:
    until = time.monotonic() + 30
    while not deliveries(limit=1):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_calls_of_a_webhook_in_an_event_loop(server: Instance) -> None:
    topic, name = topic_with_records(server), new_name("hook")

    async def use() -> list[Any]:
        async with AsyncTopics(server.url) as topics:
            webhook = topics.webhook(name)
            made = await webhook.put("https://localhost:1/hooks", [topic])
            said = [made["created"], (await webhook.pause())["state"], len(await topics.webhooks(name))]
            said += [(await webhook.resume())["state"], "test_ts" in await webhook.test()]
            said += [await webhook.rotate(SECRET) == SECRET, await webhook.replay(failed=True, dry_run=True)]
            said += [(await webhook.info())["webhook"], len(await webhook.deliveries(state="delivered"))]
            return [*said, (await webhook.delete())["deleted"]]

    assert asyncio.run(use()) == [True, "paused", 1, "running", True, True, 0, name, 0, True]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_calls_of_a_webhook_in_node(server: Instance) -> None:
    topic, name = topic_with_records(server), new_name("hook")
    assert part(server.url, "webhook", topic, 0, name) == [True, "paused", 1, "running", True, True, 0, name, 0, True]
