"""Forwarding from one topic to another, by span: the Django app."""

from django.apps import AppConfig


class RoutersConfig(AppConfig):
    name = "routers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from base.clock import now_ms
        from routers.metrics import collect
        from routers.tasks import request_advance
        from topics import wake
        from wire.metrics import collectors

        wake.on_routed.append(request_advance)
        collectors.append(lambda key: collect(key, now_ms()))
