"""Makes the site a Django app, so that Django finds its commands (`manage.py run`)."""

from django.apps import AppConfig


class TopicsProjectConfig(AppConfig):
    name = "topics_project"

    def ready(self) -> None:
        from topics_project import celery, logins, wiring  # noqa: F401 - every publisher of a task needs the app, not only the worker

        wiring.wire()
