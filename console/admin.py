"""The lists of topics, routers and cursors, extended by the console: links to pages, coloured states, completion in fields."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from console.templatetags import console as shown
from routers.admin import RouterAdmin
from routers.models import Router
from topics.admin.cursors import CursorAdmin
from topics.admin.topics import TopicAdmin
from topics.models import Cursor, Topic

NAMES_OF_TOPICS = ("source_name", "dest_name", "topic_name", "dead_letter")


class Completing:
    """Completes topic names in fields. A choice from 10,000 topics would be useless."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)  # type: ignore[misc]
        for name in NAMES_OF_TOPICS:
            if name in form.base_fields:
                attributes = {"data-complete": reverse("admin:console_complete"), "autocomplete": "off"}
                form.base_fields[name].widget.attrs.update(attributes)
        return form


@admin.register(Topic)
class Topics(Completing, TopicAdmin):
    """The topics' list. Each name links to the topic's page, which links to the topic's settings."""

    list_display = ("named", *TopicAdmin.list_display[1:])
    list_display_links = None

    @admin.display(ordering="name", description="name")
    def named(self, topic: Topic) -> str:
        return shown.topic(topic.name)


@admin.register(Router)
class Routers(Completing, RouterAdmin):
    list_display = ("named", *RouterAdmin.list_display[1:])
    list_display_links = None

    @admin.display(ordering="name", description="name")
    def named(self, router: Router) -> str:
        return shown.router(router.name)

    @admin.display(ordering="source__name", description="source")
    def from_topic(self, router: Router) -> str:
        return shown.topic(router.source.name)

    @admin.display(ordering="dest__name", description="dest")
    def to_topic(self, router: Router) -> str:
        return shown.topic(router.dest.name)

    @admin.display(ordering="state", description="state")
    def state_now(self, router: Router) -> str:
        return shown.state(super().state_now(router))


@admin.register(Cursor)
class Cursors(Completing, CursorAdmin):
    @admin.display(ordering="topic__name", description="topic")
    def of_topic(self, cursor: Cursor) -> str:
        return shown.topic(cursor.topic.name)
