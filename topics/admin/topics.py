"""Topics in the admin: list, create, configure, trim, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminIntegerFieldWidget
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import Incompatible, TopicNotFound
from base.units import amount, first, moment, size
from contract.config import StoredConfig
from store.script import run
from topics.admin import trim
from topics.admin.pages import Deletion, DomainAdmin, DomainForm, as_struct, choice_column
from topics.cache import COLUMNS
from topics.config import MAX_PRIORITY, QUEUES_ONLY, Config, put_topic
from topics.delete.topic import delete_topic
from topics.hooks import hooks
from topics.models import Cursor, Topic
from wire.documents.sentences import sentences

MOST_NAMED = 100  # routers, and cursors, that a confirmation names
ASKED = tuple(name for name in COLUMNS if name != "type" and name not in QUEUES_ONLY)  # the API makes queues
HELP = {name: said.replace("`", "") for name, said in sentences(StoredConfig).items()}
HELP |= {
    "name": "1 to 255 of A-Z a-z 0-9 . _ : - with a letter or digit first.",
    "priority": f"From -{MAX_PRIORITY} to {MAX_PRIORITY}. Streams read topics with a higher priority first. Empty: by last use.",
}
RETENTION = ("ttl_ms", "cap_records", "cap_bytes", "discard")
OTHERS = tuple(name for name in ASKED if name not in ("durability", *RETENTION))


class TopicForm(DomainForm):
    # The API clamps the value and reports it in the answer (`clamped`). A form refuses the value, because a form can ask again.
    priority = forms.IntegerField(
        required=False,
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        label="priority",
        help_text=HELP["priority"],
        widget=AdminIntegerFieldWidget,
    )

    class Meta:
        model = Topic
        fields = ("name", *ASKED)
        labels = {name: name for name in ASKED}  # the API's names, which its messages use, too
        help_texts = HELP
        widgets = {"name": forms.TextInput(attrs={"size": 60})}


class TopicAdmin(DomainAdmin):
    """The pages of topics: one query a page, by the unique index on name, with each topic's head."""

    nothing_yet = mark_safe(
        'No topics yet. The first append creates a topic. You can also <a href="add/">add a topic</a> here.'
    )
    form = TopicForm
    columns = ("head_seq", "earliest_seq", "records", "payload", "last_write")
    list_display = ("name", choice_column("type"), choice_column("durability"), *columns)
    list_select_related = ("head",)
    list_filter = ("type", "durability", "discard")
    ordering = ("name",)
    # No index: PostgreSQL scans 10,000 names in 3 ms.
    search_fields = ("name__contains",)
    search_help_text = "Search for a part of a name."
    fieldsets = (
        (None, {"fields": ("name", "durability")}),
        ("Retention", {"fields": RETENTION}),
        ("Reads and writes", {"fields": OTHERS}),
    )
    now = ("type", *columns, "created")

    # -- Columns and fields --------------------------------------------------------------------------------------------

    @admin.display(ordering="head__head_seq")
    def head_seq(self, topic: Topic) -> str:
        return amount(topic.head.head_seq)

    @admin.display(ordering="head__floor_seq")
    def earliest_seq(self, topic: Topic) -> str:
        return amount(topic.head.floor_seq + 1)

    @admin.display(ordering="head__count")
    def records(self, topic: Topic) -> str:
        return amount(topic.head.count)

    @admin.display(ordering="head__bytes")
    def payload(self, topic: Topic) -> str:
        return format_html('<span title="{} bytes">{}</span>', amount(topic.head.bytes), size(topic.head.bytes))

    @admin.display(ordering="head__last_ts")
    def last_write(self, topic: Topic) -> str | None:
        return moment(topic.head.last_ts)

    @admin.display
    def created(self, topic: Topic) -> str | None:
        return moment(topic.created_ts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Topic]:
        return super().get_queryset(request).select_related("head")

    def get_fieldsets(self, request: HttpRequest, obj: Topic | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj is None else (*fieldsets[:1], ("Now", {"fields": self.now}), *fieldsets[1:])

    def get_readonly_fields(self, request: HttpRequest, obj: Topic | None = None) -> Sequence[str]:
        return () if obj is None else ("name", *self.now)

    # -- Actions -------------------------------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Topic, form: TopicForm, change: bool) -> None:
        """Creates the topic, or changes the fields that the form changed. Raises TopicsError."""
        names = [name for name in (form.changed_data if change else ASKED) if name in ASKED]
        config = as_struct({name: form.cleaned_data[name] for name in names}, Config)
        created = run(put_topic(obj.name, config, now_ms())).created
        topic = Topic.objects.get(name=obj.name)
        if change and topic.pk != obj.pk:  # deleted while the page was open, and perhaps recreated
            raise TopicNotFound(f"{obj.name!r} was deleted meanwhile", topic=obj.name)
        if not change and not created:
            raise Incompatible(f"topic {obj.name!r} already exists: choose another name", topic=obj.name)
        obj.pk = topic.pk

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        """Returns the objects that a delete removes, with three queries for any number of topics."""
        return lost_by_delete(objs, request)

    def delete_model(self, request: HttpRequest, obj: Topic) -> None:
        run(delete_topic(obj.name, False, now_ms()))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(lambda request, id: trim.trim(self, request, id))
        return [path("<int:id>/trim/", view, name="topics_topic_trim"), *super().get_urls()]


def lost_by_delete(topics: Any, request: HttpRequest) -> Deletion:
    ids = [topic.pk for topic in topics]
    found = list(Topic.objects.filter(pk__in=ids).select_related("head").order_by("name"))
    routers = run(hooks.value.named_by(ids))
    cursors = Cursor.objects.filter(topic__in=ids, kind=Cursor.Kind.NAMED)
    named = [f"{name} of {topic}" for name, topic in cursors.order_by("name").values_list("name", "topic__name")]
    lost: list[Any] = [
        f"Topic {topic}: {amount(topic.head.count)} records, {size(topic.head.bytes)} of payload" for topic in found
    ]
    kinds = (("Routers", routers), ("Named cursors", named))
    lost += [f"{kind}: {first(names, MOST_NAMED)}" for kind, names in kinds if names]
    counts = {
        "topics": len(found),
        "records": amount(sum(topic.head.count for topic in found)),
        "payload": size(sum(topic.head.bytes for topic in found)),
        "routers": len(routers),
        "named cursors": len(named),
    }
    lacking = set()
    if routers and not request.user.has_perm("routers.delete_router"):
        lacking.add("router")
    return lost, counts, lacking, []
