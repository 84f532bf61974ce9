"""Routemaster's bus: the Django app."""

from django.apps import AppConfig
from django.conf import settings

from base.errors import InvalidRequest
from base.refusal import Refusal


class PushConfig(AppConfig):
    name = "push"
    verbose_name = "Push bus"

    def ready(self) -> None:
        """Checks the settings, and starts to report faults."""
        from push.reports import exceptions, reporters
        from wire.access.keys import LEAST_SECRET, SECRET

        root = settings.ROUTEMASTER_ROOT_KEY
        least = LEAST_SECRET if settings.BEYOND_LOOPBACK else 1
        if root and (not SECRET.fullmatch(root) or not least <= len(root) <= 128):
            raise Refusal(f"Invalid ROUTEMASTER_ROOT_KEY: expected {least} to 128 printable characters.")
        check_clients(root)
        exceptions.report_to(settings.EXCEPTION_SERVICE, settings.EXCEPTION_SERVICE_URL)
        reporters.check(settings.METRIC_COLLECTION_SERVICE)


def check_clients(root: str) -> None:
    """Raises Refusal for a token of ROUTEMASTER_CLIENTS that is malformed, or confusable with another token."""
    from push.bus.clients import CONFUSABLE, are_confusable
    from push.bus.names import check_token

    seen = {"ROUTEMASTER_ROOT_KEY": root} if root else {}
    for place, token in enumerate(settings.ROUTEMASTER_CLIENTS, 1):
        refused = f"Invalid ROUTEMASTER_CLIENTS: entry {place}"
        try:
            check_token(token, "token")
        except InvalidRequest as error:
            raise Refusal(f"{refused}: {error.message}.") from error
        if token == root:
            raise Refusal(f"{refused} is ROUTEMASTER_ROOT_KEY.")
        for where, other in seen.items():
            if token != other and are_confusable(token, other):
                raise Refusal(f"{refused} and {where} {CONFUSABLE}. Change one.")
        seen[f"entry {place}"] = token
