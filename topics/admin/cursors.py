"""Cursors in the admin. A page sets named cursors like the API's PUT. The cursors of routers and other owners are read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import BigIntegerField, F, Func, QuerySet
from django.db.models.functions import Greatest
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import Incompatible, NotFound
from base.units import amount, duration, moment
from store.script import run
from topics.admin.pages import Deletion, DomainAdmin, DomainForm, as_struct, choice_column
from topics.api.cursors import PutCursor
from topics.cursors.named import delete_cursor, move, target_seq
from topics.models import Cursor

LAG = F("topic__head__head_seq") - F("seq")
NEXT_TS = Func(
    "topic_id",
    Greatest("seq", "topic__head__floor_seq"),
    function="topic_next_ts",
    output_field=BigIntegerField(),
)


class CursorForm(DomainForm):
    topic_name = forms.CharField(label="Topic", widget=forms.TextInput(attrs={"size": 60}))
    at = forms.ChoiceField(
        label="Set the cursor",
        choices=[("seq", "to the seq below"), ("head", "to the head"), ("earliest", "before the earliest record")],
    )
    seq = forms.IntegerField(
        required=False, help_text="The last seq that the reader has read. Reading continues after this seq."
    )
    # The seq when the page was made. It is the API's check against overwriting a reader's progress.
    expected_seq = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Cursor
        fields = ("name", "seq")
        widgets = {"name": forms.TextInput(attrs={"size": 60})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expected_seq" in self.fields and not self.instance._state.adding:
            self.fields["expected_seq"].initial = self.instance.seq

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("seq") is not None and cleaned.get("at") != "seq" and "seq" in self.changed_data:
            self.add_error("at", "Choose to set the cursor to the seq below, or leave the seq as it was.")
        return cleaned

    def digest(self) -> str:
        return ""  # `expected_seq` checks the only value that changes


class CursorAdmin(DomainAdmin):
    """The pages of cursors: one query a page. Lag is the head minus the cursor, computed by this query."""

    nothing_yet = mark_safe("No cursors yet. A reader creates a cursor: <code>PUT /v0/topics/…/cursors/…</code>")
    form = CursorForm
    list_display = ("name", choice_column("kind"), "of_topic", "seq", "head_seq", "lag", "oldest_unread", "updated")
    list_filter = ("kind",)
    ordering = ("topic_id", "name", "kind")
    search_fields = ("name__contains", "topic__name__contains")
    search_help_text = "Search for a part of a cursor's or a topic's name."
    now = ("kind", "of_topic", "head_seq", "lag", "oldest_unread", "updated")

    # -- Columns and fields --------------------------------------------------------------------------------------------

    @admin.display(ordering="topic__name", description="topic")
    def of_topic(self, cursor: Cursor) -> str:
        url = reverse("admin:topics_topic_change", args=[cursor.topic_id])
        return format_html('<a href="{}">{}</a>', url, cursor.topic.name)

    @admin.display(ordering="topic__head__head_seq", description="head")
    def head_seq(self, cursor: Cursor) -> str:
        return amount(cursor.topic.head.head_seq)

    @admin.display(ordering="lag")
    def lag(self, cursor: Cursor) -> str:
        return amount(cursor.lag)

    @admin.display(description="oldest unread", empty_value="none")
    def oldest_unread(self, cursor: Cursor) -> str | None:
        return None if cursor.next_ts is None else duration(now_ms() - cursor.next_ts)

    @admin.display(ordering="updated_ts")
    def updated(self, cursor: Cursor) -> str | None:
        return moment(cursor.updated_ts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cursor]:
        return super().get_queryset(request).select_related("topic__head").annotate(lag=LAG, next_ts=NEXT_TS)

    def get_fieldsets(self, request: HttpRequest, obj: Cursor | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ("topic_name", "name", "at", "seq")})]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ("name", "seq", *self.now)})]
        return [(None, {"fields": ("name", *self.now)}), (None, {"fields": ("at", "seq", "expected_seq")})]

    def get_readonly_fields(self, request: HttpRequest, obj: Cursor | None = None) -> Sequence[str]:
        return () if obj is None else ("name", *self.now)

    # -- Actions -------------------------------------------------------------------------------------------------------

    def has_change_permission(self, request: HttpRequest, obj: Cursor | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.kind == Cursor.Kind.NAMED)

    def has_delete_permission(self, request: HttpRequest, obj: Cursor | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.kind == Cursor.Kind.NAMED)

    def save_model(self, request: HttpRequest, obj: Cursor, form: CursorForm, change: bool) -> None:
        """Sets the cursor. Raises TopicsError, also if the cursor moved while the page was open."""
        given = form.cleaned_data
        topic = obj.topic.name if change else given["topic_name"]
        place = {"seq": given["seq"]} if given["at"] == "seq" else {"at": given["at"]}
        wanted = as_struct({**place, "expected_seq": given.get("expected_seq") if change else None}, PutCursor)
        now = now_ms()
        seq = run(target_seq(topic, wanted, now))
        created = run(move(topic, obj.name, seq, wanted.expected_seq, now)).made
        if change and created:
            raise NotFound(f"cursor {obj.name!r} of {topic!r} was deleted meanwhile", topic=topic, cursor=obj.name)
        if not change and not created:
            raise Incompatible(
                f"{topic!r} already has a cursor {obj.name!r}: choose another name", topic=topic, cursor=obj.name
            )
        made = Cursor.objects.get(topic__name=topic, name=obj.name, kind=Cursor.Kind.NAMED)
        obj.pk, obj.topic, obj.seq = made.pk, made.topic, made.seq

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        """Returns the cursors that a delete removes. Cursors of routers and other owners prevent the delete."""
        owned = [
            f"Cursor {each.name} belongs to a {each.kind}, which deletes it"
            for each in objs
            if each.kind != Cursor.Kind.NAMED
        ]
        lost = [f"Cursor {each.name} of {each.topic.name} at {amount(each.seq)}" for each in objs]
        return lost, {"cursors": len(lost)}, set(), owned

    def delete_model(self, request: HttpRequest, obj: Cursor) -> None:
        run(delete_cursor(obj.topic.name, obj.name))
