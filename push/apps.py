"""Routemaster's bus: the Django app."""

from django.apps import AppConfig
from django.conf import settings

from base.errors import InvalidRequest
from base.refusal import Refusal


class PushConfig(AppConfig):
    name = "push"
    verbose_name = "Push bus"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Join in where the rooms below leave room for it."""
        from push import counters, exceptions, fill, health, metrics, reporters
        from push.names import check_queue, check_token
        from topics import hooks
        from wire import pulse
        from wire.keys import LEAST_SECRET, SECRET
        from wire.metrics import collectors

        root = settings.ROUTEMASTER_ROOT_KEY
        least = LEAST_SECRET if settings.BEYOND_LOOPBACK else 1
        if root and (not SECRET.fullmatch(root) or not least <= len(root) <= 128):
            raise Refusal(f"ROUTEMASTER_ROOT_KEY cannot be used: give it {least} to 128 printable characters.")
        for place, token in enumerate(settings.ROUTEMASTER_CLIENTS, 1):
            try:
                check_token(token, "token")
            except InvalidRequest as error:
                raise Refusal(f"ROUTEMASTER_CLIENTS cannot be used: entry {place}: {error.message}.") from error
            if token == root:
                raise Refusal(f"ROUTEMASTER_CLIENTS cannot be used: entry {place} is ROUTEMASTER_ROOT_KEY.")
        hooks.before_read = fill.before_read
        hooks.check_config = check_queue
        collectors.append(metrics.collect)
        pulse.steps += [health.look_at_redis, counters.note_start, counters.flush]
        exceptions.report_to(settings.EXCEPTION_SERVICE, settings.EXCEPTION_SERVICE_URL)
        reporters.check(settings.METRIC_COLLECTION_SERVICE)
