"""The log as a Django app: topics, records and cursors."""

from django.apps import AppConfig
from django.conf import settings

from base.refusal import Refusal


class TopicsConfig(AppConfig):
    name = "topics"

    def ready(self) -> None:
        """Checks the settings."""
        from wire.access.keys import LEAST_SECRET, MalformedKeys, parse_keys

        # If clients from other hosts can reach the port, they can guess secrets as fast as the network allows. So a secret
        # must be long.
        least = LEAST_SECRET if settings.BEYOND_LOOPBACK else 1
        try:
            parse_keys(settings.TOPICS_API_KEYS, least)
        except MalformedKeys as error:
            raise Refusal(f"Invalid TOPICS_API_KEYS: {error}.") from error
