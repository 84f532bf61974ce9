"""The log as a Django app: topics, records and cursors."""

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created

from base.refusal import Refusal


class TopicsConfig(AppConfig):
    name = "topics"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from store import connection
        from store.timeouts import limit
        from topics import metrics, recency
        from topics.upkeep.recovery import RECOVER, recover
        from wire import pulse
        from wire.keys import LEAST_SECRET, MalformedKeys, parse_keys
        from wire.metrics import collectors

        # If clients from other hosts can reach the port, they can guess secrets as fast as the network allows. So a secret
        # must be long.
        least = LEAST_SECRET if settings.BEYOND_LOOPBACK else 1
        try:
            parse_keys(settings.TOPICS_API_KEYS, least)
        except MalformedKeys as error:
            raise Refusal(f"TOPICS_API_KEYS cannot be used: {error}.") from error
        connection.on_connect.append(RECOVER)
        pulse.steps.append(recency.flush)
        collectors.append(metrics.collect)
        connection_created.connect(recover)
        connection_created.connect(limit)
