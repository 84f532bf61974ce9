"""Operations that no call of an open site reaches: of a key with prefixes, at a cap, of the workers of push, and of operators of
the bus. Each runs the function that a call, a worker or a page runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from base.clock import now_ms
from bench.growth.calls import Client, Operation
from bench.growth.site import Site
from bench.growth.store import Size
from store.script import Script, Statement, atomically, run

NEWEST = "SELECT max(id) FROM push_busclient"


def parts(of: Site, client: Client, size: Size) -> Iterator[Operation]:
    yield from of_a_key()
    yield from at_caps()
    yield from of_routers(client)
    yield from of_webhooks(of, client)
    yield from of_the_bus(of, client, size)


def of_a_key() -> Iterator[Operation]:
    """A key for some small topics, and a key for the large topic alone, which may not see the names of its readers."""
    from routers.stored import named_by
    from topics import metrics
    from topics.cursors import named
    from wire.access.keys import SCOPES, Key

    key, of_large = (Key("growth", frozenset(SCOPES), (prefix,)) for prefix in ("t777", "large"))
    page = named.After()
    yield Operation("a key's sums of its topics", lambda name: run(metrics.collect(key)))
    yield Operation(
        "a key's page of cursors", lambda name: run(named.page_of_cursors("large", page, 5, now_ms(), of_large))
    )
    yield Operation("routers that name some topics", lambda name: run(named_by([1, 2, 3])))


def at_caps() -> Iterator[Operation]:
    from topics.read import totals
    from watch import sessions

    # Under a cap of 1, each creation counts.
    room = sessions.make_room("watch_sessions", 1, "address:10.0.0.1", now_ms())
    yield Operation("room for a watch session of a holder", lambda name: run(room))
    yield Operation("bytes of all topics", lambda name: run(one(totals.BYTES)))


def one(statement: str) -> Script[Any]:
    return (yield Statement(statement))


def of_routers(client: Client) -> Iterator[Operation]:
    from routers import advance

    def put(name: str) -> None:
        client.send("PUT", f"/v0/routers/{name}", {"source": name, "dest": f"{name}-d", "allow_cycle": True})

    yield Operation("create a router that may close a cycle", put)
    yield Operation(
        "sources with lagging routers, of those written lately", lambda name: advance.behind_unsettled(now_ms())
    )
    yield Operation("whether a source is behind", lambda name: advance.behind(now_ms(), 1))


def of_webhooks(of: Site, client: Client) -> Iterator[Operation]:
    """Reads of a worker for the webhook of the largest topic."""
    from push.webhooks import sources, webhooks

    hook = run(webhooks.find("large"))
    (joined,) = run(sources.joined(hook.name, hook.settings, (), now_ms()))
    joined.read = joined.head - 10

    def put(name: str, order: str) -> None:
        client.send("PUT", f"/v0/webhooks/{name}", {"url": "https://example.com/", "topics": [name], "order": order})

    yield Operation("webhook: join its topics", lambda name: run(sources.joined("large", hook.settings, (), now_ms())))
    yield Operation(
        "webhook: join one topic", lambda name: run(sources.joined("large", hook.settings, (), now_ms(), [joined.id]))
    )
    yield Operation("webhook: a window", lambda name: run(sources.read(joined, hook.settings, 100, now_ms())))
    yield Operation("webhook: which topics stand still", lambda name: run(sources.stopped(hook.id)))
    yield Operation("webhook: whether topics do", lambda name: run(sources.still_stopped(hook.id, [joined.id])))
    yield Operation("webhook: what waits", lambda name: run(sources.waiting_in(hook.id, joined.id, ["a"], 0, 100)))
    yield Operation("webhook: what is due", lambda name: run(sources.due(hook.id, 100)))
    yield Operation("webhook: when the next is due", lambda name: run(sources.next_due_ms(hook.id, 0)))
    yield Operation("webhook: names of topics", lambda name: run(sources.names_of([joined.id])))
    yield Operation("webhook: another order", partial(put, order="none"), partial(put, order="tag"))


def of_the_bus(of: Site, client: Client, size: Size) -> Iterator[Operation]:
    """A bus with a tenth as many subscribers as the store has routers, or ten. Each has events that wait, but the last.

    Nothing calls their callbacks, because no worker runs here.
    """
    from push import autodrop, upkeep
    from push.bus import operate, topics
    from push.delivery import batches
    from push.delivery.callbacks import Outcome

    ids = [subscriber(of, client, n) for n in range(max(10, size.routers // 10))]
    first, queue = ids[0], of.one("SELECT queue FROM push_subscriber WHERE client_id = %s", ids[0])[0]
    queue_id = of.one("SELECT id FROM topics_topic WHERE name = %s", queue)[0]
    for _ in range(3):
        run(operate.send_test(queue, now_ms()))
    held: dict[str, batches.Taken] = {}

    def take(name: str) -> None:
        held[name] = run(batches.take(first))
        assert held[name].events, held[name]

    def held_by_us(name: str) -> None:
        tested(name)
        take(name)

    def settle(name: str, *, acknowledged: bool) -> None:
        run(batches.settle_and_take(first, held[name], Outcome(200, None, acknowledged), 1.0, go_on=False))

    def tested(name: str) -> None:
        of.database.execute("UPDATE push_subscriber SET leased_until_ts = 0, retry_ts = 0, timeout_ms = 0")
        run(operate.send_test(queue, now_ms()))

    def failed(name: str) -> None:
        held_by_us(name)
        settle(name, acknowledged=False)

    def skip(name: str) -> None:
        batch = run(operate.current_batch(first))
        assert batch is not None
        run(operate.skip(first, batch.id, batch.last_seq, now_ms()))

    def delivered(name: str) -> None:
        held_by_us(name)
        settle(name, acknowledged=True)

    def leave(name: str) -> None:
        of.database.execute(b"UPDATE push_subscriber SET unsubscribed_ts = 1 WHERE client_id = %s", [ids[-1]])

    yield Operation("a subscriber's next batch", take, tested)
    yield Operation("settle a batch", partial(settle, acknowledged=True), held_by_us)
    yield Operation("skip a batch", skip, failed)
    yield Operation("pause a subscriber", lambda name: run(operate.set_paused(first, False)))
    yield Operation("redeliver", lambda name: run(operate.redeliver(first, queue, 1, None, now_ms())), delivered)
    yield Operation("drop a queue", lambda name: run(operate.drop_queue(first, queue, now_ms())), tested)
    yield Operation("heads of some topics", lambda name: run(batches.heads_of([queue_id])))
    yield Operation("hand a topic over", lambda name: run(topics.hand_over("t_a", first)))
    yield Operation("subscribers that are overdue", lambda name: run(batches.overdue(now_ms())))
    yield Operation("deliveries that are due", lambda name: run(batches.due_within(0, now_ms())))
    yield Operation("bytes of all queues", lambda name: run(autodrop.used_bytes()))
    yield Operation("autodrop: the subscriber with the oldest event", lambda name: run(autodrop.find_stalest([])))
    yield Operation("autodrop: a step", lambda name: autodrop.drop_step(first, queue_id, queue, 1), tested)
    yield Operation("trim what was delivered", lambda name: run(atomically(upkeep.trim(queue_id, 2**40))), delivered)
    yield Operation("forget a subscriber", lambda name: run(atomically(upkeep.forget(ids.pop(), now_ms()))), leave)


def subscriber(of: Site, client: Client, number: int) -> int:
    """Makes a client with a topic of its own and a subscription to it. Returns the client's id."""
    topic = "t_" + "".join(chr(ord("a") + int(digit)) for digit in str(number))
    token = client.bus("POST", "/api_tokens", {"name": f"growth{number}"})["token"]
    client.bus("POST", f"/topics/{topic}", {"type": "create", "url": "https://shop/1"}, token)
    wanted = {"topics": [topic], "callback": "https://127.0.0.1:1/events", "uuid": "me"}
    client.bus("POST", "/subscription", wanted, token)
    client.bus("POST", f"/topics/{topic}", {"type": "create", "url": "https://shop/2"}, token)
    return int(of.one(NEWEST)[0])
