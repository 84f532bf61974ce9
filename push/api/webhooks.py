"""/v0/webhooks (docs/webhooks.md). A webhook's name must be within the key's prefixes, and so must each topic that it gets.

A key needs the scope `webhooks`, also to read, because URLs can contain secrets, and `read` to create or change a webhook.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from base.bigint import bigint
from base.clock import now_ms
from base.errors import Incompatible, InvalidRequest, NotFound
from base.names import check_topic_name
from contract.operations import Operation
from push.webhooks import deliveries, webhooks
from push.webhooks.config import PutWebhook, Settings
from push.webhooks.signing import key_of, new_secret
from push.webhooks.webhooks import Stored, WaitingCount
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import NextCursor, PageQuery
from wire.request.parse import Destruction, NoFields, Request
from wire.schema import Clamped, Performance

endpoint = partial(Endpoint, scope="webhooks", tag="webhooks")
of_one = partial(endpoint, names={"webhook": "example-shop"}, errors=(NotFound,))
EXAMPLE = {"url": "https://example.com/hooks", "topics": ["example-orders"]}
State = Literal["running", "failing", "paused"]
DeliveryState = Annotated[Literal["delivered", "failed", "dead", "skipped", "lost"], Meta(title="DeliveryState")]
Ts = Annotated[int, Meta(ge=0, le=2**62)]


class WebhookShown(Settings, kw_only=True):
    """A webhook's config and state."""

    webhook: str
    """The webhook's name."""
    url: str
    """Where the calls go."""
    state: State
    """`failing`: the last calls failed, so the endpoint gets one call at a time."""
    pause_reason: str | None
    """Why the webhook is paused. Null if it is not."""
    failures: int
    """Failed calls in a row."""
    retry_ts: int | None
    """A failing endpoint gets its next call at this time, in milliseconds since the epoch. Null: at any time."""
    last_error: str | None
    """The error of the last call. Null after a call that succeeded."""
    last_success_ts: int | None
    """Time of the last call that succeeded. Null: none so far."""
    waiting: int
    """Records that wait for another call."""
    next_ts: int | None
    """When the first of them is due. Null: none waits."""
    delivered_total: int
    """Records that were delivered."""
    dead_total: int
    """Records that have no attempt left."""
    calls_total: int
    """Calls."""
    failed_total: int
    """Calls that failed."""
    created_ts: int
    """Time of its creation."""
    updated_ts: int
    """Time of its last change."""


class WebhookAnswer(WebhookShown, kw_only=True):
    secret: str | UnsetType = UNSET
    """The secret of the signatures. Only in the answer of the call that made it."""
    created: bool | UnsetType = UNSET
    """True: this call created the webhook. Only with a PUT."""
    performance: Performance


class WebhooksAnswer(msgspec.Struct, kw_only=True):
    webhooks: list[WebhookShown]
    """The webhooks of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class WebhooksQuery(PageQuery):
    prefix: str = ""
    """Only webhooks whose name starts with this prefix."""


class DeleteWebhookAnswer(msgspec.Struct, kw_only=True):
    webhook: str
    """The webhook's name."""
    deleted: bool
    """False: the webhook did not exist."""
    performance: Performance


class RotateRequest(Request):
    """The body of a rotation."""

    secret: str | UnsetType = UNSET
    """The new secret. Without it, the server makes one."""


class TestAnswer(msgspec.Struct, kw_only=True):
    webhook: str
    """The webhook's name."""
    topic: str
    """`topic` of the test in the log."""
    test_ts: int
    """`seq` of the test in the log, which is its time."""
    performance: Performance


class DeliveriesQuery(PageQuery):
    topic: str | None = None
    """Only calls with records of this topic."""
    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    """Only calls with this record of `topic`."""
    state: DeliveryState | None = None
    """Only calls that ended so."""
    from_ts: Ts | None = None
    """Only calls of this time or later, in milliseconds since the epoch."""
    to_ts: Ts | None = None
    """Only calls of this time or earlier."""


class DeliveryShown(msgspec.Struct, kw_only=True):
    """A call, or records that were lost before a call."""

    id: int
    """Number of the call. Later calls have higher numbers."""
    ts: int
    """Time of the answer, in milliseconds since the epoch."""
    topic: str
    """The topic of its records."""
    first_seq: int
    """The first of them."""
    last_seq: int
    """The last of them."""
    records: int
    """Their number, up to 2147483647."""
    message: str
    """`webhook-id` of the call. Empty for records that were lost."""
    attempt: int
    """Number of the attempt, from 1."""
    state: DeliveryState
    """`failed`: the records wait for the next attempt. `dead`: no attempt is left, and they are dead letters. `skipped`: no
    attempt is left, and only this log has them. `lost`: the topic lost them, for example by its TTL."""
    status: int | None
    """Status of the answer. Null: no answer."""
    ms: int
    """Milliseconds of the call."""
    error: str | None
    """Why the call failed. Null: it succeeded."""
    answer: str | None
    """The first 2 KiB of the answer."""
    next_ts: int | None
    """Time of the next attempt. Null: none follows."""


class DeliveriesAnswer(msgspec.Struct, kw_only=True):
    webhook: str
    """The webhook's name."""
    deliveries: list[DeliveryShown]
    """The calls of this page, the newest first."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class ReplayRequest(Destruction):
    """The body of a replay: which records are sent again. One call sends up to 10000."""

    topic: str | None = None
    """The topic of the records."""
    from_seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    """The first record. Null: the first of the topic."""
    to_seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    """The last record. Null: the last that the webhook has read."""
    from_ts: Ts | None = None
    """Only records of this time or later. With `failed`: calls of this time."""
    to_ts: Ts | None = None
    """Only records of this time or earlier. With `failed`: calls of this time."""
    failed: bool = False
    """True: records that had no attempt left, and were not delivered since. With `topic`, from its
    `from_seq` on, and then those of later topics. With `to_seq`, those of `topic` alone."""
    dry_run: bool = False
    """True: the answer counts the records, and nothing is sent."""


class ReplayAnswer(msgspec.Struct, kw_only=True):
    webhook: str
    """The webhook's name."""
    records: int
    """Number of records that are sent again, or would be."""
    next_topic: str | None
    """`topic` of the next call, if more records remain. Null: none remains."""
    next_from_seq: int | None
    """`from_seq` of the next call."""
    dry_run: bool
    """Whether the call only counted."""
    performance: Performance


def shown(webhook: Stored, waits: WaitingCount, now: int) -> dict[str, Any]:
    settings = webhooks.hidden(webhook.settings)
    return {
        **{name: getattr(settings, name) for name in Settings.__struct_fields__},
        "webhook": webhook.name,
        "url": webhook.url,
        "state": webhook.state,
        "pause_reason": webhook.pause_reason,
        "failures": webhook.failures,
        "retry_ts": webhook.retry_ts if webhook.retry_ts > now else None,
        "last_error": webhook.last_error,
        "last_success_ts": webhook.last_success_ts,
        "waiting": waits.records,
        "next_ts": waits.next_ts,
        "delivered_total": webhook.delivered_total,
        "dead_total": webhook.dead_total,
        "calls_total": webhook.calls_total,
        "failed_total": webhook.failed_total,
        "created_ts": webhook.created_ts,
        "updated_ts": webhook.updated_ts,
    }


def visible(call: Call[Any, Any], name: str) -> Script[Stored]:
    """Returns a webhook that the key may see. Raises NotFound or Forbidden."""
    found = yield from webhooks.find(name)
    found.check(call.key)
    return found


def show(
    call: Call[Any, Any], webhook: Stored, *, secret: str | None = None, created: bool | None = None
) -> Script[Answer]:
    waits = yield from webhooks.waiting([webhook.id])
    answer = WebhookAnswer(
        **shown(webhook, waits.get(webhook.id, WaitingCount()), now_ms()),
        secret=UNSET if secret is None else secret,
        created=UNSET if created is None else created,
        performance=call.performance(),
    )
    return call.answer(answer, status=201 if created else 200)


@of_one(
    Operation.PUT_WEBHOOK,
    body=PutWebhook,
    answers={200: WebhookAnswer, 201: WebhookAnswer},
    errors=(Incompatible,),
    example=EXAMPLE,
    needs_body=True,
)
def put(call: Call[PutWebhook, None], webhook: str) -> Script[Answer]:
    """Create a webhook, or change its config. After the answer, no call has the config of before."""
    done = yield from webhooks.put(webhook, call.body, call.key, now_ms())
    return (yield from show(call, done.webhook, secret=done.secret, created=done.created))


@of_one(Operation.GET_WEBHOOK, answers={200: WebhookAnswer})
def get(call: Call[None, None], webhook: str) -> Script[Answer]:
    """Get a webhook's config and state."""
    return (yield from show(call, (yield from visible(call, webhook))))


@endpoint(Operation.DELETE_WEBHOOK, answers={200: DeleteWebhookAnswer}, names={"webhook": "example-no-longer-wanted"})
def delete(call: Call[None, None], webhook: str) -> Script[Answer]:
    """Delete a webhook. After the answer, nothing is sent."""
    deleted = yield from webhooks.delete(check_topic_name(webhook, "webhook"), call.key)
    return call.answer(DeleteWebhookAnswer(webhook=webhook, deleted=deleted, performance=call.performance()))


@endpoint(
    Operation.LIST_WEBHOOKS,
    query=WebhooksQuery,
    answers={200: WebhooksAnswer},
    instead="PUT /v0/webhooks/:webhook creates a webhook",
)
def list_webhooks(call: Call[None, WebhooksQuery]) -> Script[Answer]:
    """List the webhooks within the key's prefixes, sorted by name."""
    wanted = call.query
    (after,) = wanted.after()
    found = yield from webhooks.page_of_webhooks(wanted.prefix, after, wanted.size + 1, call.key.prefixes)
    listed, following = wanted.page(found, lambda each: (each.name,))
    page = [each for each in listed if each.is_within(call.key)]
    waits, now = (yield from webhooks.waiting([each.id for each in page])), now_ms()
    return call.answer(
        WebhooksAnswer(
            webhooks=[WebhookShown(**shown(each, waits.get(each.id, WaitingCount()), now)) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        )
    )


@of_one(Operation.PAUSE_WEBHOOK, body=NoFields, answers={200: WebhookAnswer})
def pause(call: Call[NoFields, None], webhook: str) -> Script[Answer]:
    """Pause a webhook. After the answer, nothing is sent. Records wait in their topics."""
    yield from visible(call, webhook)
    done = yield from webhooks.set_paused(webhook, True, "paused by a call", now_ms())
    return (yield from show(call, done))


@of_one(Operation.RESUME_WEBHOOK, body=NoFields, answers={200: WebhookAnswer})
def resume(call: Call[NoFields, None], webhook: str) -> Script[Answer]:
    """Resume a webhook that is paused. A failing endpoint gets its next call at once."""
    yield from visible(call, webhook)
    return (yield from show(call, (yield from webhooks.set_paused(webhook, False, None, now_ms()))))


@of_one(Operation.TEST_WEBHOOK, body=NoFields, answers={200: TestAnswer}, errors=(NotFound, Incompatible))
def test(call: Call[NoFields, None], webhook: str) -> Script[Answer]:
    """Send a test. The log shows its outcome, under the topic and seq of the answer."""
    yield from visible(call, webhook)
    seq = yield from deliveries.send_test(webhook)
    return call.answer(
        TestAnswer(webhook=webhook, topic=deliveries.TEST_TOPIC, test_ts=seq, performance=call.performance())
    )


@of_one(Operation.ROTATE_WEBHOOK, body=RotateRequest, answers={200: WebhookAnswer})
def rotate(call: Call[RotateRequest, None], webhook: str) -> Script[Answer]:
    """Give a webhook another secret. For a day, each call also has a signature by the secret of before."""
    yield from visible(call, webhook)
    secret = new_secret() if call.body.secret is UNSET else call.body.secret
    key_of(secret)
    done = yield from webhooks.rotate(webhook, secret, now_ms())
    return (yield from show(call, done, secret=secret))


@of_one(Operation.LIST_DELIVERIES, query=DeliveriesQuery, answers={200: DeliveriesAnswer})
def list_deliveries(call: Call[None, DeliveriesQuery], webhook: str) -> Script[Answer]:
    """List the calls of a webhook with topics within the prefixes of the key, the newest first.

    The server keeps them for `PUSH_LOG_DAYS`.
    """
    wanted = call.query
    if wanted.seq is not None and wanted.topic is None:
        raise InvalidRequest("seq belongs to a topic: send topic, too", field="topic")
    (before,) = wanted.after()
    upto = bigint(before) if before else 2**63 - 1
    if upto is None:
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor")
    stored = yield from visible(call, webhook)
    conditions = deliveries.LogFilter(
        wanted.topic, wanted.seq, wanted.state, wanted.from_ts, wanted.to_ts, list(call.key.prefixes) or None
    )
    found = yield from deliveries.page_of_deliveries(stored.id, conditions, upto, wanted.size + 1)
    page, following = wanted.page(found, lambda each: (str(each.id),))
    return call.answer(
        DeliveriesAnswer(
            webhook=webhook,
            deliveries=[DeliveryShown(**each._asdict()) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        )
    )


@of_one(
    Operation.REPLAY_WEBHOOK,
    body=ReplayRequest,
    answers={200: ReplayAnswer},
    errors=(NotFound, Incompatible),
    example={"failed": True, "dry_run": True},
)
def replay(call: Call[ReplayRequest, None], webhook: str) -> Script[Answer]:
    """Send records again: one, a range of seqs or times, or all that have no attempt left. They wait for no other record."""
    yield from visible(call, webhook)
    wanted = call.body
    choice = deliveries.ReplayChoice(
        wanted.topic, wanted.from_seq, wanted.to_seq, wanted.from_ts, wanted.to_ts, wanted.failed
    )
    found, following = yield from deliveries.replay(webhook, choice, now_ms(), is_dry=wanted.dry_run)
    answer = ReplayAnswer(
        webhook=webhook,
        records=len(found),
        next_topic=following and following[0],
        next_from_seq=following and following[1],
        dry_run=wanted.dry_run,
        performance=call.performance(),
    )
    return call.answer(answer)


endpoints = (list_webhooks, put, get, delete, pause, resume, test, rotate, list_deliveries, replay)
