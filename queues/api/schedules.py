"""Schedules of a queue (docs/wire.md)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from base.clock import now_ms
from base.errors import NotAQueue, RecordTooLarge, TopicNotFound
from contract.operations import Operation
from queues import schedules
from store.script import Script
from topics.api.shapes import TopicName
from topics.append.records import NewRecord, columns
from topics.sealed import DESCRIBED
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import NextCursor, PageQuery
from wire.schema import Clamped, Performance

endpoint = partial(
    Endpoint,
    errors=(TopicNotFound, NotAQueue),
    tells=DESCRIBED,
    names={"topic": "example-jobs"},
    tag="queues",
)


class PutSchedule(NewRecord):
    """When a queue gets jobs, and the record of each job."""

    not_before: Annotated[int, Meta(ge=0, le=schedules.LATEST_TS)] | None = None
    """Time of the job, in milliseconds since the epoch. A past time means now. With `cron`, the first job comes at this time or
    later."""
    cron: str | None = None
    """A cron line of up to 100 characters in five fields: minute, hour, day of the month, month, weekday. Null: one job, at
    `not_before`."""
    timezone: str = "UTC"
    """The timezone of the cron line: a name of the IANA database, such as `Europe/Berlin`."""


class ScheduleShown(msgspec.Struct, kw_only=True):
    """A schedule."""

    topic: TopicName
    schedule: str
    """The name of the schedule."""
    cron: str | None
    """The cron line. Null: the schedule appends one job, and is deleted."""
    timezone: str
    """The timezone of the cron line."""
    not_before: int | None
    """As sent: the time of the job, or the time before which no job comes, in milliseconds since the epoch."""
    next_ts: int | None
    """Time of the next job, in milliseconds since the epoch. Null: the call repeats a PUT whose only job has come."""
    jobs: int
    """Number of times at which the schedule gave the queue a job."""
    last_ts: int | None
    """The last of these times. Null: none so far."""
    last_seq: int | None
    """The seq of the last job. Null: no job so far."""
    error: str | None
    """The error with which the queue refused the job, as long as the schedule tries again. Null: no error."""
    node: str | UnsetType = UNSET
    """Name of the writer of the jobs. Not in lists, like the next three fields."""
    tag: str | UnsetType = UNSET
    """Tag of the jobs."""
    meta: dict[str, Any] | UnsetType = UNSET
    """Exactly the object that was sent."""
    data: Any = UNSET
    """Exactly the JSON that was sent."""


class ScheduleAnswer(ScheduleShown, kw_only=True):
    created: bool | UnsetType = UNSET
    """True: this call created the schedule. Only with a PUT."""
    performance: Performance


class SchedulesAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    schedules: list[ScheduleShown]
    """The schedules of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteScheduleAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    schedule: str
    """The name of the schedule."""
    deleted: bool
    """False: the schedule did not exist, or has appended its job."""
    performance: Performance


@endpoint(
    Operation.PUT_SCHEDULE,
    scope="write",
    body=PutSchedule,
    answers={200: ScheduleAnswer, 201: ScheduleAnswer},
    errors=(TopicNotFound, NotAQueue, RecordTooLarge),
    example={"cron": "0 3 * * *", "timezone": "Europe/Berlin", "data": {"report": "daily"}},
    needs_body=True,
)
def put(call: Call[PutSchedule, None], topic: str, schedule: str) -> Script[Answer]:
    """Create or replace a schedule: a job later, or jobs by a cron line."""
    wanted = call.body
    times = schedules.Times(wanted.not_before, wanted.cron, wanted.timezone)
    found, is_new = yield from schedules.put_schedule(topic, schedule, times, columns([wanted], None), now_ms())
    return show(call, topic, found, is_new)


@endpoint(Operation.GET_SCHEDULE, scope="read", answers={200: ScheduleAnswer})
def get(call: Call[None, None], topic: str, schedule: str) -> Script[Answer]:
    """Get a schedule and the record of its jobs."""
    return show(call, topic, (yield from schedules.get_schedule(topic, schedule)))


@endpoint(
    Operation.DELETE_SCHEDULE,
    scope="delete",
    answers={200: DeleteScheduleAnswer},
    names={"topic": "example-jobs", "schedule": "no-longer-wanted"},
)
def delete(call: Call[None, None], topic: str, schedule: str) -> Script[Answer]:
    """Delete a schedule. Its earlier jobs stay in the queue."""
    deleted = yield from schedules.delete_schedule(topic, schedule)
    return call.answer(
        DeleteScheduleAnswer(topic=topic, schedule=schedule, deleted=deleted, performance=call.performance())
    )


@endpoint(Operation.LIST_SCHEDULES, scope="read", query=PageQuery, answers={200: SchedulesAnswer})
def list_schedules(call: Call[None, PageQuery], topic: str) -> Script[Answer]:
    """List the schedules of a queue, without the records of their jobs."""
    wanted = call.query
    (after,) = wanted.after()
    found = yield from schedules.page_of_schedules(topic, after, wanted.size + 1)
    page, following = wanted.page(found, lambda each: (each.name,))
    return call.answer(
        SchedulesAnswer(
            topic=topic,
            schedules=[ScheduleShown(**fields(topic, each)) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        )
    )


def show(call: Call[Any, None], topic: str, found: schedules.StoredSchedule, created: bool | None = None) -> Answer:
    flag = UNSET if created is None else created
    answer = ScheduleAnswer(**fields(topic, found), created=flag, performance=call.performance())
    return call.answer(answer, status=201 if created else 200)


def fields(topic: str, found: schedules.StoredSchedule) -> dict[str, Any]:
    """Returns the fields of ScheduleShown. If the record was read, its fields are among them."""
    values = found._asdict()
    record = values.pop("record") or {}
    return {
        "topic": topic,
        "schedule": values.pop("name"),
        "next_ts": values.pop("due_ts"),
        **values,
        **{name: value for name, value in record.items() if value is not None},
    }
