"""The site as an app, so that its commands (`manage.py run`) are found."""

from django.apps import AppConfig


class TopicsProjectConfig(AppConfig):
    name = "topics_project"

    def ready(self) -> None:
        from topics_project import celery  # noqa: F401 - whoever publishes a task needs the app, not the worker alone
