"""Bus topics in the admin: the publisher of each, and a form to change the publisher. Tokens have no page: they are secrets."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import BigIntegerField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Concat
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.units import amount, moment
from push.bus.clients import ROOT
from push.bus.names import BUS
from push.bus.topics import delete_topic, hand_over
from push.models import BusClient, BusTopic
from store.script import run
from topics.admin.pages import Deletion, DomainAdmin, DomainForm
from topics.models import Topic

IN_LOG = Topic.objects.filter(name=Concat(Value(BUS), OuterRef("name")))


class BusTopicForm(DomainForm):
    publisher = forms.ModelChoiceField(
        BusClient.objects.filter(token__isnull=False).order_by("name", "id"),
        help_text="Only this client can publish to the topic after the change.",
    )

    class Meta:
        model = BusTopic
        fields = ("publisher",)


@admin.register(BusTopic)
class BusTopicAdmin(DomainAdmin):
    nothing_yet = mark_safe("No bus topics yet. The first event creates a topic: <code>POST /topics/…</code>")
    form = BusTopicForm
    list_display = ("name", "published_by", "head", "created")
    list_select_related = ("publisher",)
    ordering = ("name",)
    search_fields = ("name__startswith",)
    search_help_text = "Search for the start of a name."
    now = ("name", "head", "created", "log")

    @admin.display(ordering="publisher__name", description="publisher")
    def published_by(self, topic: BusTopic) -> str:
        if topic.publisher is None:
            return "none yet (the first client that publishes)"
        return f"{topic.publisher}{'' if topic.publisher.token else ' (its token was deleted)'}"

    @admin.display(ordering="head_seq", description="head", empty_value="deleted")
    def head(self, topic: BusTopic) -> str | None:
        return None if topic.head_seq is None else amount(topic.head_seq)

    @admin.display
    def created(self, topic: BusTopic) -> str | None:
        return moment(topic.created_ts)

    @admin.display(description="in the log")
    def log(self, topic: BusTopic) -> str:
        url = reverse("admin:topics_topic_changelist")
        return format_html('<a href="{}?q={}">{}</a>', url, BUS + topic.name, BUS + topic.name)

    def get_queryset(self, request: HttpRequest) -> QuerySet[BusTopic]:
        heads = Subquery(IN_LOG.values("head__head_seq")[:1], output_field=BigIntegerField())
        return super().get_queryset(request).annotate(head_seq=heads).order_by(F("name"))

    def get_fieldsets(self, request: HttpRequest, obj: BusTopic | None = None) -> Any:
        return [("Now", {"fields": self.now}), (None, {"fields": ("publisher",)})]

    def get_readonly_fields(self, request: HttpRequest, obj: BusTopic | None = None) -> tuple[str, ...]:
        return self.now

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # the first event creates a topic

    def save_model(self, request: HttpRequest, obj: BusTopic, form: Any, change: bool) -> None:
        """Makes the selected client the publisher. Raises TopicsError."""
        run(hand_over(obj.name, obj.publisher_id))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        lost = [
            f"Topic {each.name}: its subscribers get the published events, and are then unsubscribed" for each in objs
        ]
        return lost, {"bus topics": len(lost)}, set(), []

    def delete_model(self, request: HttpRequest, obj: BusTopic) -> None:
        run(delete_topic(obj.name, ROOT, now_ms()))
