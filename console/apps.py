"""The console as a Django app, and the admin that it lives in."""

from django.apps import AppConfig
from django.contrib.admin import apps


class AdminConfig(apps.AdminConfig):
    """Django's admin, whose site is ours."""

    default = False  # of the package `console`: that is the one below
    default_site = "console.pages.Site"


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "console"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Join in where the lower rooms leave a place for it."""
        from console import jobs, metrics, signs
        from topics.api import health
        from wire.metrics import collectors

        jobs.listen()
        collectors.append(metrics.collect)
        health.degraded.append(signs.degraded)
