"""The log as a Django app: topics, records and whoever reads them."""

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created

from topics_project.refusal import Refusal


class TopicsConfig(AppConfig):
    name = "topics"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from topics.keys import MalformedKeys, parse_keys
        from topics.restart import recover
        from topics.timeouts import limit

        try:
            parse_keys(settings.TOPICS_API_KEYS)
        except MalformedKeys as error:
            raise Refusal(f"TOPICS_API_KEYS cannot be used: {error}.") from error
        connection_created.connect(recover)
        connection_created.connect(limit)
