"""Forwarding from one topic to another, by span: the Django app."""

from django.apps import AppConfig


class RoutersConfig(AppConfig):
    name = "routers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Registers routers with the log (topics/hooks.py), with wake-ups and with metrics."""
        from routers import advance, metrics, routers, stored
        from routers.tasks import request_advance
        from store.script import run
        from topics import hooks, wake
        from wire.metrics import collectors

        hooks.before_read = advance.before_read
        hooks.before_delete = routers.before_delete
        hooks.with_delete = routers.with_delete
        hooks.named_by = lambda topic_ids: run(stored.named_by(topic_ids))
        wake.on_routed.append(request_advance)
        collectors.append(metrics.collect)
