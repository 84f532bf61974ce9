"""The pipeline's pages in the admin: schedules can be edited; runs, rollups and delays are read-only."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import InvalidRequest
from base.units import amount, duration, moment, size
from pipeline.delays import delay_ms
from pipeline.models import Delay, Rollup, Run, Schedule, as_dict
from pipeline.runs.running import check
from topics.admin.pages import DomainAdmin, DomainForm, ReadOnlyAdmin, choice_column
from topics.models import Topic


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs of jobs. The report of an audit lists the problems of each router."""

    nothing_yet = mark_safe(
        'No job has run yet. <a href="../schedule/">Schedules</a> start them, or <code>manage.py pipeline …</code>'
    )
    list_display = (
        "started",
        choice_column("job"),
        "asked",
        "state_now",
        "took",
        "records_read",
        "records_written",
        "summary",
    )
    list_display_links = ("started",)
    list_filter = ("job", "state")
    ordering = ("-started_ts",)
    fields = ("job", "asked", "state_now", "started", "took", "records_read", "records_written", "summary", "told")

    @admin.display(ordering="started_ts", description="started (UTC)")
    def started(self, run: Run) -> str | None:
        return moment(run.started_ts)

    @admin.display(description="options")
    def asked(self, run: Run) -> str:
        return told(run.options)

    @admin.display(description="state")
    def state_now(self, run: Run) -> str:
        return run.get_state_display()

    @admin.display
    def took(self, run: Run) -> str:
        return duration((run.finished_ts or now_ms()) - run.started_ts)

    @admin.display(description="read")
    def records_read(self, run: Run) -> str:
        return amount(run.read)

    @admin.display(description="written")
    def records_written(self, run: Run) -> str:
        return amount(run.written)

    @admin.display(description="report")
    def told(self, run: Run) -> str:
        return "" if run.report is None else format_html("<pre>{}</pre>", json.dumps(run.report, indent=2))


def told(options: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in as_dict(options).items())


class OptionsField(forms.JSONField):
    """A JSON field that shows the submitted text unparsed. Parsing refused JSON for the page again could fail."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except RecursionError as error:
            raise forms.ValidationError("The JSON is nested too deep.") from error

    def bound_data(self, data: str | None, initial: Any) -> InvalidJSONInput:
        return InvalidJSONInput(data or "")


class ScheduleForm(DomainForm):
    class Meta:
        model = Schedule
        fields = ("job", "options", "every_minutes", "enabled")
        field_classes: ClassVar = {"options": OptionsField}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("every_minutes") == 0:
            self.add_error("every_minutes", "Expected at least 1 minute.")
        if not isinstance(cleaned.get("options"), dict):
            self.add_error("options", 'Expected a JSON object: {"topic": "orders", "out": "/archive"}')
        elif cleaned.get("job"):
            try:
                check(cleaned["job"], cleaned["options"])
            except InvalidRequest as error:
                self.add_error("options", error.message)
        return cleaned


@admin.register(Schedule)
class ScheduleAdmin(DomainAdmin):
    nothing_yet = mark_safe('No schedules yet. <a href="add/">Add a schedule</a>: it runs a job at an interval.')
    form = ScheduleForm
    list_display = ("__str__", choice_column("job"), "every", "enabled", "next", "last")
    list_filter = ("job", "enabled")
    ordering = ("job", "id")
    actions = ("run_now",)
    fields = ("job", "options", "every_minutes", "enabled")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        return super().get_queryset(request).select_related("last_run")

    @admin.display(ordering="every_minutes")
    def every(self, schedule: Schedule) -> str:
        return duration(schedule.every_minutes * 60_000)

    @admin.display(description="next (UTC)", ordering="next_ts")
    def next(self, schedule: Schedule) -> str | None:
        return (moment(schedule.next_ts) or "at once") if schedule.enabled else "not enabled"

    @admin.display(description="last run")
    def last(self, schedule: Schedule) -> str:
        run = schedule.last_run
        return f"{moment(run.started_ts)}: {run.get_state_display()}" if run else ""

    @admin.action(description="Run selected schedules now", permissions=["change"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        count = queryset.filter(enabled=True).update(next_ts=0)
        messages.success(request, f"{count} jobs start within ten seconds, one after another.")


TOPIC = Subquery(Topic.objects.filter(pk=OuterRef("topic_id")).values("name"))


class ByMinute(ReadOnlyAdmin):
    """Base of pages with a row per topic and minute, the latest first: by the primary key, however many rows there are."""

    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).annotate(topic=TOPIC)

    @admin.display(description="topic")
    def of(self, row: Any) -> str:
        return row.topic or f"(deleted: {row.topic_id})"

    @admin.display(description="minute (UTC)", ordering="minute_ts")
    def minute(self, row: Any) -> str | None:
        return moment(row.minute_ts)

    @admin.display(description="records", ordering="records")
    def count(self, row: Any) -> str:
        return amount(row.records)


@admin.register(Rollup)
class RollupAdmin(ByMinute):
    nothing_yet = mark_safe("No rollup yet. Run <code>manage.py pipeline rollup</code>, or add a schedule.")
    list_display = fields = ("minute", "of", "node", "tag_prefix", "count", "payload", "first_seq", "last_seq")
    search_fields = ("node__startswith", "tag_prefix__startswith")
    search_help_text = "Search for the start of a node or of a tag prefix."

    @admin.display(description="bytes", ordering="bytes")
    def payload(self, row: Rollup) -> str:
        return size(row.bytes)


@admin.register(Delay)
class DelayAdmin(ByMinute):
    nothing_yet = mark_safe("No delays yet. A rollup measures them: <code>manage.py pipeline rollup</code>")
    list_display = fields = ("minute", "router", "of", "about", "count")
    search_fields = ("router__startswith",)
    search_help_text = "Search for the start of a router's name."

    @admin.display(description="delay, about", ordering="bucket")
    def about(self, row: Delay) -> str:
        return f"{delay_ms(row.bucket):,.1f} ms"
