"""The app: finds the handlers of all apps, and registers the checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.utils.module_loading import autodiscover_modules


class TopicsConfig(AppConfig):
    name = "topics_client.django"
    label = "topics_client"
    verbose_name = "Topics"

    def ready(self) -> None:
        from topics_client.django import checks

        autodiscover_modules("consumers")
        register(checks.check_settings)
        register(checks.check_topics, Tags.database)
