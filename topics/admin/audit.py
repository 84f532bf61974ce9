"""The audit log in the admin: changes and deletes, by time, name, kind and actor. The entries are read-only."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Concat
from django.http import HttpRequest
from django.utils.html import format_html

from base.clock import now_ms
from base.units import moment
from topics.admin.pages import ReadOnlyAdmin, choice_column
from topics.models import AuditEntry

HOUR_MS = 3_600_000
KINDS = ("topic", "router", "records", "cursor", "group", "schedule", "webhook", "key", "bus", "outbox", "signal")
# The states before and after, as one text. A search reads entry by entry, from the newest: about 5 µs each.
SAID = Concat(Cast("before", TextField()), Cast("after", TextField()))
ACTIONS = ("create", "change", "delete", "redrive", "replay", "revoke", "rotate", "skip")


class Word(admin.SimpleListFilter):
    """A filter with a few fixed words, which need no query."""

    words: tuple[str, ...]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(each, each) for each in self.words]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(**{self.parameter_name: self.value()}) if self.value() in self.words else queryset


class Kind(Word):
    title, parameter_name, words = "kind", "kind", KINDS


class Action(Word):
    title, parameter_name, words = "action", "action", ACTIONS


class Since(admin.SimpleListFilter):
    title, parameter_name = "time", "since"
    hours = {"hour": 1, "day": 24, "week": 7 * 24, "month": 30 * 24}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, f"the last {name}") for name in self.hours]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        hours = self.hours.get(self.value() or "")
        return queryset if hours is None else queryset.filter(ts__gte=now_ms() - hours * HOUR_MS)


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    nothing_yet = "No changes yet, or the entries are older than TOPICS_AUDIT_DAYS."
    list_display = ("when", "who", "origin", choice_column("action"), choice_column("kind"), "name")
    list_display_links = ("when",)
    list_filter = (Since, Kind, Action)
    ordering = ("-ts", "-id")
    search_fields = (
        "name__startswith",
        "actor_name__istartswith",
        "actor__startswith",
        "origin__startswith",
        "said",
    )
    search_help_text = (
        "Search for the start of a name, of an actor or of an address, or for a part of the values before or after."
        " Several words must all match."
    )
    fields = ("when", "who", "origin", "action", "kind", "name", "was", "became")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return super().get_queryset(request).alias(said=SAID)

    @admin.display(ordering="ts", description="when (UTC)")
    def when(self, entry: AuditEntry) -> str | None:
        return moment(entry.ts)

    @admin.display(ordering="actor")
    def who(self, entry: AuditEntry) -> str:
        return f"{entry.actor_name} ({entry.actor})" if entry.actor_name else entry.actor

    @admin.display(description="before")
    def was(self, entry: AuditEntry) -> str:
        return state(entry.before)

    @admin.display(description="after")
    def became(self, entry: AuditEntry) -> str:
        return state(entry.after)


def state(value: dict[str, Any] | None) -> str:
    return "" if value is None else format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))
