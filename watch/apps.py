"""Streams as a Django app, with a task (tasks.py) and without models."""

from django.apps import AppConfig


class WatchConfig(AppConfig):
    name = "watch"

    def ready(self) -> None:
        """Registers the long poll as a hook of the log (topics/hooks.py)."""
        from topics import hooks
        from watch.longpoll import until_moved

        hooks.until_moved = until_moved
