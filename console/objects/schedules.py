"""Pages of a queue's schedules: a list with a form, and a page for each schedule (docs/queues.md)."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from base.clock import now_ms
from base.errors import TopicsError
from base.units import moment
from console.objects.queue import queue
from console.objects.topic import around
from console.records.browse import TimeField, time_of
from console.records.record_form import RecordForm
from console.site import Console
from console.templatetags.console import schedules_url
from queues import schedules
from queues.schedules import StoredSchedule, Times
from store.script import run
from topics import audit
from topics.append.records import columns
from topics.stale import StaleCheck

MOST_SHOWN, MOST_CHARACTERS = 50, 200  # schedules of a page, and characters of the data of each
CREATE, DELETE = "console.append_record", "topics.delete_topic"  # permissions


class ScheduleForm(StaleCheck, RecordForm):
    name = forms.CharField(label="Name", help_text="Replaces a schedule with the same name.")
    cron = forms.CharField(
        label="Cron line",
        required=False,
        help_text="Minute, hour, day, month, weekday, for example 0 3 * * *. Empty: one job.",
    )
    timezone = forms.CharField(initial="UTC", help_text="The timezone of the cron line, for example Europe/Berlin.")
    not_before = TimeField(help_text="The time of the job. With a cron line, no job comes before this time.")
    field_order = ("name", "cron", "timezone", "not_before")

    def clean_not_before(self) -> int | None:
        ts: int | None = self.cleaned_data["not_before"]
        if ts is not None and not 0 <= ts <= schedules.LATEST_TS:
            raise forms.ValidationError("Expected a time from the year 1970 to the year 9999.")
        return ts

    @property
    def times(self) -> Times:
        given = self.cleaned_data
        return Times(given["not_before"], given["cron"] or None, given["timezone"])


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the list. A POST creates or replaces a schedule. `after`: the last schedule of the page before."""
    topic = queue(name)
    form = ScheduleForm(request.POST or None)
    if request.method == "POST" and put(request, name, form):
        return HttpResponseRedirect(schedules_url(name))
    after = request.GET.get("after", "")
    found = run(schedules.page_of_schedules(name, after, MOST_SHOWN + 1, MOST_CHARACTERS + 1))
    shown = found[:MOST_SHOWN]
    context = {
        **around(topic, "schedules"),
        "state": topic.state,
        "schedules": shown,
        "following": shown[-1].name if len(found) > MOST_SHOWN else None,
        "after": after,
        "form": form,
        "longest": MOST_CHARACTERS,
    }
    return site.page(request, "console/schedules.html", **context)


def one(site: Console, request: HttpRequest, name: str, schedule: str) -> HttpResponse:
    """Returns the page of a schedule. A POST replaces or deletes the schedule. Raises TopicNotFound or NotFound."""
    topic = queue(name)
    if request.method == "POST" and request.POST.get("action") == "delete":
        delete(request, name, schedule)
        return HttpResponseRedirect(schedules_url(name))
    found = run(schedules.get_schedule(name, schedule))
    form = ScheduleForm(request.POST or None, initial=initial(found))
    form.fields["name"] = forms.CharField(disabled=True, widget=forms.HiddenInput)
    if request.method == "POST" and put(request, name, form):
        return HttpResponseRedirect(schedules_url(name))
    context = {**around(topic, "schedules"), "state": topic.state, "schedule": found, "form": form}
    return site.page(request, "console/schedule.html", **context)


def initial(found: StoredSchedule) -> dict[str, Any]:
    """Returns the fields of the form for a schedule."""
    record = {
        name: value if isinstance(value, str) else bytes(value or b"").decode()
        for name, value in (found.record or {}).items()
    }
    return {
        **record,
        "name": found.name,
        "cron": found.cron,
        "timezone": found.timezone,
        "not_before": time_of(found.not_before),
    }


def put(request: HttpRequest, name: str, form: ScheduleForm) -> bool:
    """Creates or replaces the schedule of the form. Returns False if the form has errors. Raises PermissionDenied."""
    if not request.user.has_perm(CREATE):
        raise PermissionDenied
    if not form.is_valid():
        return False
    schedule = form.cleaned_data["name"]
    try:
        with transaction.atomic():
            rows = columns([form.record()], None)
            found, is_new = run(schedules.put_schedule(name, schedule, form.times, rows, now_ms()))
            if found.due_ts is None:
                messages.info(
                    request, f"Schedule {schedule} was created before, and its job has come: nothing changed."
                )
                return True
            after = {"cron": found.cron, "timezone": found.timezone, "next_ts": found.due_ts}
            run(audit.note("create" if is_new else "change", "schedule", f"{name}/{schedule}", after=after))
    except TopicsError as error:
        form.add_error(None, error.message)
        return False
    comes = f"at {moment(found.due_ts)} UTC" if found.due_ts > now_ms() else "now"
    messages.success(
        request, f"Schedule {schedule} is {'created' if is_new else 'replaced'}: the next job comes {comes}."
    )
    return True


def delete(request: HttpRequest, name: str, schedule: str) -> None:
    """Deletes the schedule, and tells the user the outcome. Raises PermissionDenied."""
    if not request.user.has_perm(DELETE):
        raise PermissionDenied
    try:
        with transaction.atomic():
            deleted = run(schedules.delete_schedule(name, schedule))
            if deleted:
                run(audit.note("delete", "schedule", f"{name}/{schedule}"))
    except TopicsError as error:
        messages.error(request, error.message)
    else:
        messages.success(
            request, f"Schedule {schedule} is deleted." if deleted else f"Schedule {schedule} was deleted before."
        )
