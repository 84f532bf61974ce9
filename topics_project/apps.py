"""The site as an app, so that its commands (`manage.py run`) are found."""

import multiprocessing
import os

from django.apps import AppConfig

from base.processes import die_with_parent


class TopicsProjectConfig(AppConfig):
    name = "topics_project"

    def ready(self) -> None:
        from topics_project import celery  # noqa: F401 - whoever publishes a task needs the app, not the worker alone

        # Also what the supervisor's children start (web workers) must not outlive them and keep the port.
        if os.environ.get("TOPICS_SUPERVISED"):
            started_by = multiprocessing.parent_process()
            die_with_parent(started_by.pid if started_by else None)
