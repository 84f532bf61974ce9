"""Webhooks of any topic: records arrive signed and in order, and records that fail come again or become dead letters."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from push.webhooks.signing import key_of, new_secret, signature
from tests.instances import Instance, until
from tests.push.hooks import Hook, append, call, new_name
from tests.push.receiver import Batch, Handler, Receiver, early_hints


@pytest.fixture
def topic() -> str:
    return new_name("hooked")


def failing(*bad: Any, times: int = 10**6, status: int = 500) -> Any:
    """Answers these data with an error, `times` times each."""
    left = {json.dumps(each): times for each in bad}

    def answer(handler: Handler, batch: Batch) -> int:
        data = json.dumps(json.loads(batch.body)["data"])
        if left.get(data, 0) > 0:
            left[data] -= 1
            return status
        return 200

    return answer


def test_a_signature_is_that_of_the_specification() -> None:
    """The example that libraries of Standard Webhooks are tried with."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_consumer_may_have_the_name_of_a_webhook(bus: Instance, receiver: Receiver, topic: str) -> None:
    append(bus, topic, 1)
    hook = Hook(bus, receiver, topic)
    hook.until_data([1])
    cursor = f"topics/{topic}/cursors/{hook.name}"
    until(lambda: call(bus, "GET", cursor).body["kind"] == "webhook", "its cursor")
    assert call(bus, "PUT", cursor, {"seq": 0}).body["created"]
    assert call(bus, "GET", cursor).body["kind"] == "named"
    append(bus, topic, 2)
    hook.until_data([1, 2])
    assert call(bus, "GET", cursor).body["seq"] == 0


def test_a_config_of_a_later_version_is_told(bus: Instance, receiver: Receiver, topic: str) -> None:
    hook = Hook(bus, receiver, topic)
    with bus.connect() as connection:
        change = "UPDATE push_webhook SET config = config {} WHERE name = %s"
        connection.execute(change.format("|| '{\"later\": 1}'").encode(), [hook.name])
        answers = [hook.call("GET"), hook.call("POST", "/pause", {}), call(bus, "GET", f"webhooks?prefix={hook.name}")]
        connection.execute(change.format("- 'later'").encode(), [hook.name])
    for answer in answers:
        assert (answer.status, answer.body["error"]["code"]) == (503, "not_ready")
        assert "a later version wrote the config of the webhook" in answer.body["error"]["message"]
    assert hook.get()["topics"] == [topic]


def test_early_hints_are_not_the_answer(bus: Instance, receiver: Receiver, topic: str) -> None:
    receiver.answer = early_hints
    append(bus, topic, 1, 2, 3)
    hook = Hook(bus, receiver, topic, order="topic")
    hook.until_data([1, 2, 3])
    shown = until(lambda: hook.get() if hook.get()["delivered_total"] == 3 else None, "the outcomes to be stored")
    assert (shown["state"], shown["calls_total"], shown["failed_total"], shown["waiting"]) == ("running", 3, 0, 0)
    assert [(each["status"], each["state"]) for each in hook.log()] == [(200, "delivered")] * 3
    assert hook.data(good=False) == [1, 2, 3]


@pytest.mark.guarantee("H1")
def test_it_delivers(bus: Instance, receiver: Receiver, topic: str) -> None:
    append(bus, topic, {"order": 1}, tag="a")
    hook = Hook(bus, receiver, topic, headers={"X-Shop": "yes"})
    assert hook.made.status == 201
    append(bus, topic, 2, tag="a")
    hook.until_data([{"order": 1}, 2])
    first = hook.calls[0]
    body = json.loads(first.body)
    assert (body["topic"], body["$seq"], body["$tag"]) == (topic, 1, "a")
    assert first.headers["content-type"] == "application/json"
    assert first.headers["x-shop"] == "yes"
    assert first.headers["webhook-id"] == f"{topic}:1"
    assert Verifier(hook.secret).verify(first.body, first.headers) == body
    with pytest.raises(WebhookVerificationError):
        Verifier(hook.secret).verify(first.body + b" ", first.headers)
    shown = until(lambda: hook.get() if hook.get()["delivered_total"] == 2 else None, "the outcomes to be stored")
    assert (shown["state"], shown["failures"], shown["waiting"], shown["headers"]) == (
        "running",
        0,
        0,
        {"X-Shop": "***"},
    )
    assert "secret" not in shown
    metrics = bus.get("/v0/metrics")[1]
    assert f'topics_webhook_records_total{{webhook="{hook.name}"}} 2.0' in metrics
    assert f'topics_webhook_waiting{{webhook="{hook.name}"}} 0.0' in metrics
    assert [(each["state"], each["first_seq"], each["status"]) for each in hook.log()] == [
        ("delivered", 2, 200),
        ("delivered", 1, 200),
    ]


def test_a_record_that_fails_comes_again_and_holds_up_its_tag_alone(
    bus: Instance, receiver: Receiver, topic: str
) -> None:
    receiver.answer = failing(1, times=2)
    hook = Hook(bus, receiver, topic)
    append(bus, topic, 1, 2, tag="a")
    append(bus, topic, 3, tag="b")
    append(bus, topic, 4)
    until(lambda: len(hook.data()) >= 4, "all records")
    assert sorted(hook.data()) == [1, 2, 3, 4]
    assert [each for each in hook.data(good=False) if each in (1, 2)] == [1, 1, 1, 2]
    log = until(
        lambda: hook.log(f"topic={topic}&seq=1") if len(hook.log(f"topic={topic}&seq=1")) == 3 else None,
        "three attempts",
    )
    assert [(each["attempt"], each["state"], each["status"]) for each in log] == [
        (3, "delivered", 200),
        (2, "failed", 500),
        (1, "failed", 500),
    ]
    ids = {batch.headers["webhook-id"] for batch in hook.calls if json.loads(batch.body)["data"] == 1}
    assert ids == {f"{topic}:1"}


def test_an_exhausted_record_becomes_a_dead_letter_with_the_last_answer(
    bus: Instance, receiver: Receiver, topic: str
) -> None:
    receiver.answer = failing({"bad": True})
    hook = Hook(bus, receiver, topic)
    append(bus, topic, {"bad": True}, {"good": 1}, tag="a")
    hook.until_data([{"good": 1}])
    path = f"topics/webhooks.dead.{hook.name}/records?include_tags=true"
    letters = until(lambda: call(bus, "GET", path).body.get("records"), "the dead letter")
    assert [(each["data"], each["$tag"]) for each in letters] == [({"bad": True}, "a")]
    stamp = letters[0]["meta"]["_topics_webhook"]
    assert {**stamp, "answer": None} == {
        "webhook": hook.name, "topic": topic, "seq": 1, "attempts": 3, "status": 500, "error": "answered 500", "answer": None,
    }  # fmt: skip
    assert hook.get()["dead_total"] == 1
    assert [each["state"] for each in hook.log("state=dead")] == ["dead"]


@pytest.mark.guarantee("H3")
def test_nothing_is_sent_after_a_delete(bus: Instance, receiver: Receiver, topic: str) -> None:
    hook = Hook(bus, receiver, topic)
    append(bus, topic, 1)
    hook.until_data([1])
    began = time.monotonic()
    assert hook.call("DELETE").body["deleted"] is True
    assert time.monotonic() - began < 8, "the holder was not told"
    sent = len(receiver.batches)
    append(bus, topic, 2)
    other = Hook(bus, receiver, topic)
    other.until_data([1, 2])
    assert len([batch for batch in receiver.batches if batch.path == hook.path]) == sent
    assert hook.call("DELETE").body["deleted"] is False
    assert hook.call("GET").status == 404
    assert [each["cursor"] for each in call(bus, "GET", f"topics/{topic}/cursors").body["cursors"]] == [other.name]


def test_order_of_a_topic_and_of_none(bus: Instance, receiver: Receiver, topic: str) -> None:
    receiver.answer = failing(2, times=1)
    ordered = Hook(bus, receiver, topic, order="topic")
    append(bus, topic, 1, 2, 3, 4)
    ordered.until_data([1, 2, 3, 4])
    receiver.answer = failing(2, times=1)
    loose = Hook(bus, receiver, topic, order="none", concurrency=1, retry={"schedule_ms": [60_000]})
    until(lambda: loose.data() == [1, 3, 4], "the records that do not fail")
    until(lambda: loose.get()["waiting"] == 1, "the record that failed to wait")
    assert loose.call("PUT", "", loose.config | {"order": "tag"}).status == 409


def test_batches_cloudevents_and_data_alone(bus: Instance, receiver: Receiver, topic: str) -> None:
    append(bus, topic, *range(25), tag="a")
    batches = Hook(bus, receiver, topic, format="batch", max_batch=10, match=["tag", "Glob", "a*"])
    append(bus, topic, "no", tag="b")
    batches.until_data(list(range(25)))
    assert [len(json.loads(each.body)["records"]) for each in batches.calls] == [10, 10, 5]
    assert batches.calls[0].headers["webhook-id"] == f"{topic}:1-10"
    slow = Hook(bus, receiver, topic, format="batch", max_batch=1_000, max_wait_ms=60_000)
    events = Hook(bus, receiver, topic, format="cloudevents", match="b")
    events.until_data(["no"])
    event = json.loads(events.calls[0].body)
    assert (event["specversion"], event["id"], event["source"], event["subject"]) == (
        "1.0",
        "26",
        f"/v0/topics/{topic}",
        "b",
    )
    assert event["data"] == "no"
    assert slow.calls == [], "it waits for a full batch"
    alone = Hook(bus, receiver, topic, format="data", match="b")
    until(lambda: alone.calls, "the call")
    assert (alone.calls[0].body, alone.calls[0].headers["webhook-id"]) == (b'"no"', f"{topic}:26")


def test_patterns_meet_topics_that_are_created_later(bus: Instance, receiver: Receiver, topic: str) -> None:
    hook = Hook(bus, receiver, f"{topic}.*", "webhooks.*", format="batch", concurrency=1)
    append(bus, f"{topic}.a", 1)
    append(bus, f"{topic}.b", 2)
    append(bus, f"{topic}b", 3)
    append(bus, "webhooks.dead.others", 4)
    until(lambda: sorted(hook.data()) == [1, 2], f"the records of both topics, not {hook.data()}")
    assert hook.call("PUT", "", hook.config | {"topics": [f"webhooks.dead.{hook.name}"]}).status == 400


def test_pause_resume_and_a_change(bus: Instance, receiver: Receiver, topic: str) -> None:
    hook = Hook(bus, receiver, topic)
    assert hook.call("POST", "/pause").body["state"] == "paused"
    append(bus, topic, 1)
    assert hook.call("POST", "/test").status == 409
    other = Hook(bus, receiver, topic)
    other.until_data([1])
    assert hook.calls == []
    assert hook.call("POST", "/resume").body["state"] == "running"
    hook.until_data([1])
    path, hook.path = hook.path, f"{hook.path}-again"
    hook.put(url=receiver.url(hook.path))
    append(bus, topic, 2)
    hook.until_data([2])
    assert len(receiver.of(path)) == 1


def test_a_test_and_a_rotation(bus: Instance, receiver: Receiver, topic: str) -> None:
    hook = Hook(bus, receiver, topic)
    done = hook.call("POST", "/test")
    assert done.status == 200
    until(lambda: hook.calls, "the test")
    assert hook.data() == [{"test": True}]
    until(lambda: hook.log(f"topic={done.body['topic']}&seq={done.body['test_ts']}"), "the test in the log")
    secret = hook.call("POST", "/rotate", {}).body["secret"]
    assert secret != hook.secret
    append(bus, topic, 1)
    until(lambda: len(hook.calls) == 2, "the record")
    for each in (secret, hook.secret):
        Verifier(each).verify(hook.calls[1].body, hook.calls[1].headers)


def test_a_rotation_that_is_repeated_keeps_the_secret_of_before(bus: Instance, receiver: Receiver, topic: str) -> None:
    """As by a client that got no answer."""
    hook, secret = Hook(bus, receiver, topic), new_secret()
    for _ in range(2):
        assert hook.call("POST", "/rotate", {"secret": secret}).body["secret"] == secret
    append(bus, topic, 1)
    hook.until_data([1])
    for each in (secret, hook.secret):
        Verifier(each).verify(hook.calls[0].body, hook.calls[0].headers)


def test_gone_pauses_and_retry_after_is_obeyed(bus: Instance, receiver: Receiver, topic: str) -> None:
    receiver.answer = lambda handler, batch: 410
    hook = Hook(bus, receiver, topic)
    append(bus, topic, 1)
    shown = until(lambda: hook.get() if hook.get()["state"] == "paused" else None, "the webhook to be paused")
    assert "410" in shown["pause_reason"]
    assert (shown["waiting"], shown["failures"]) == (1, 1)

    def busy(handler: Handler, batch: Batch) -> None:
        handler.send_response(503)
        handler.send_header("Retry-After", "3600")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answer = busy
    hook.call("POST", "/resume")
    until(lambda: len(hook.calls) == 2, "the second attempt")
    shown = until(lambda: hook.get() if hook.get()["retry_ts"] else None, "the pause to be stored")
    assert 3_500_000 < hook.log()[0]["next_ts"] - time.time() * 1000 <= 3_600_000
    assert 3_500_000 < shown["retry_ts"] - time.time() * 1000 <= 3_600_000


def test_a_failing_endpoint_gets_one_call_at_a_time_and_loses_nothing(
    bus: Instance, receiver: Receiver, topic: str
) -> None:
    receiver.answer = lambda handler, batch: 500
    hook = Hook(bus, receiver, topic, order="none", concurrency=4, retry={"schedule_ms": [200], "max_attempts": 100})
    append(bus, topic, *range(200))
    until(lambda: hook.get()["failures"] >= 8, "the endpoint to fail")
    assert hook.get()["state"] == "failing"
    assert hook.get()["waiting"] < 50, "a failing endpoint puts few records aside"
    receiver.answer = lambda handler, batch: 200
    until(lambda: sorted(hook.data()) == list(range(200)), "each record once")
    until(lambda: hook.get()["state"] == "running", "the endpoint to be well")


def test_exhausted_records_pause_or_are_skipped_and_can_be_replayed(
    bus: Instance, receiver: Receiver, topic: str
) -> None:
    receiver.answer = failing(2)
    hook = Hook(bus, receiver, topic, on_exhausted="skip", order="none")
    append(bus, topic, 1, 2, 3)
    until(lambda: [each["first_seq"] for each in hook.log("state=skipped")] == [2], "the record to be skipped")
    assert hook.get()["waiting"] == 0
    receiver.answer = lambda handler, batch: 200
    dry = hook.call("POST", "/replay", {"failed": True, "dry_run": True})
    assert (dry.body["records"], dry.body["dry_run"]) == (1, True)
    assert hook.call("POST", "/replay", {"failed": True}).body["records"] == 1
    until(lambda: 2 in hook.data(), "the record that was skipped")
    until(
        lambda: hook.call("POST", "/replay", {"failed": True, "dry_run": True}).body["records"] == 0,
        "nothing left to replay",
    )
    assert hook.call("POST", "/replay", {"topic": topic, "from_seq": 2}).body["records"] == 2
    until(lambda: sorted(hook.data()) == [1, 2, 2, 3, 3], "both again")

    receiver.answer = failing(4)
    hook.put(on_exhausted="pause")
    append(bus, topic, 4)
    shown = until(lambda: hook.get() if hook.get()["state"] == "paused" else None, "the webhook to be paused")
    assert (shown["waiting"], shown["dead_total"]) == (1, 1)
    receiver.answer = lambda handler, batch: 200
    hook.call("POST", "/resume")
    until(lambda: 4 in hook.data(), "the record that waited")


def test_a_replay_sends_the_records_that_failed_and_no_others_of_their_calls(
    bus: Instance, receiver: Receiver, topic: str
) -> None:
    append(bus, topic, 1, tag="a1")
    append(bus, topic, *["other"] * 1_200, tag="b")
    append(bus, topic, 2, tag="a2")
    receiver.answer = lambda handler, batch: 500
    once = {"schedule_ms": [20], "max_attempts": 1}
    batches = {"format": "batch", "max_batch": 2, "max_wait_ms": 60_000}
    hook = Hook(bus, receiver, topic, match=["tag", "Glob", "a*"], on_exhausted="skip", retry=once, **batches)
    failed = {"failed": True, "dry_run": True}
    until(lambda: hook.call("POST", "/replay", failed).body["records"] == 2, "the records to be given up")
    (sent,) = hook.log()
    assert (sent["first_seq"], sent["last_seq"], sent["records"]) == (1, 1_202, 2)
    assert hook.log(f"topic={topic}&seq=1") == hook.log(f"topic={topic}&seq=1202") == [sent]
    assert hook.log(f"topic={topic}&seq=1000") == [], "a record between them, which no call had"
    receiver.answer = lambda handler, batch: 200
    assert hook.call("POST", "/replay", {"failed": True}).body["records"] == 2
    until(lambda: sorted(hook.data()) == [1, 2], "the records that failed")
    until(lambda: hook.call("POST", "/replay", failed).body["records"] == 0, "nothing left to replay")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"url": "http://example.com/"}, "expected an https:// URL"),
        ({"url": "https://a:b@example.com/"}, "no credentials"),
        ({"url": "https://example.com/#a"}, "no fragment"),
        ({}, "url"),
        ({"url": "https://example.com/", "topics": ["a*b"]}, "expected a name, or a prefix"),
        ({"url": "https://example.com/", "topics": []}, "topics"),
        ({"url": "https://example.com/", "secret": "whsec_abc"}, "24 to 64 bytes"),
        ({"url": "https://example.com/", "headers": {"Host": "x"}}, "not a header that you can set"),
        ({"url": "https://example.com/", "headers": {"A": "x\ny"}}, "invalid value"),
        ({"url": "https://example.com/", "topics": ["a", "b"], "from": 3}, "seqs belong to one topic"),
        ({"url": "https://example.com/", "max_wait_ms": 5}, 'need the format "batch"'),
        ({"url": "https://example.com/", "retry": {"max_attempts": 3, "max_age_ms": 5}}, "exclude each other"),
    ],
)
def test_it_refuses(bus: Instance, body: dict[str, Any], message: str) -> None:
    done = call(bus, "PUT", "webhooks/refused", {"topics": ["a"], **body})
    assert (done.status, done.body["error"]["code"]) == (400, "invalid_request")
    assert message in done.body["error"]["message"]
    assert call(bus, "GET", "webhooks/refused").status == 404


def test_it_refuses_a_queue(bus: Instance, topic: str) -> None:
    call(bus, "PUT", f"topics/{topic}", {"type": "queue"})
    done = call(bus, "PUT", "webhooks/refused", {"url": "https://example.com/", "topics": [topic]})
    assert (done.status, done.body["error"]["code"]) == (409, "topic_exists_incompatible")


def test_denied_addresses_redirects_and_answers_that_trickle(strict: Instance, topic: str) -> None:
    receiver = Receiver(None)

    def trickle(handler: Handler, batch: Batch) -> int | None:
        if batch.path.endswith("moved"):
            handler.send_response(302)
            handler.send_header("Location", receiver.url("/elsewhere"))
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return None
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while True:  # until the caller hangs up
            handler.wfile.write(b"x")
            time.sleep(0.05)

    receiver.answer = trickle
    append(strict, topic, 1)
    denied = Hook(
        strict, receiver, topic, url=f"http://127.0.0.2:{receiver.port}/denied", retry={"schedule_ms": [60_000]}
    )
    moved = Hook(strict, receiver, topic, url=receiver.url("/moved"), retry={"schedule_ms": [60_000]})
    slow = Hook(strict, receiver, topic, url=receiver.url("/slow"))
    assert "PUSH_CALLBACK_DENY" in until(lambda: denied.log(), "the refusal")[0]["error"]
    assert until(lambda: moved.log(), "the redirect")[0]["error"] == "answered 302"
    shown = until(lambda: slow.log(), "the answer that trickles")[0]
    assert (shown["state"], shown["status"], set(shown["answer"])) == ("delivered", 200, {"x"})
    assert receiver.of("/denied") == receiver.of("/elsewhere") == []
    for each in (denied, moved, slow):
        each.call("DELETE")
    receiver.end()
