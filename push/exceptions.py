"""Faults of ours go to EXCEPTION_SERVICE, by the vendor's own library: whatever is logged with an exception, and nothing else.

Callbacks that fail are none of these: they stand in the delivery log. No library is let see local variables or headers, where
tokens are.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from base.refusal import Refusal

Report = Callable[[BaseException], object]
LIBRARIES = {
    "sentry": ("sentry_sdk", "sentry-sdk>=2.40,<3"),
    "honeybadger": ("honeybadger", "honeybadger>=1,<2"),
    "new_relic": ("newrelic", "newrelic>=11"),
}


class Reporting(logging.Handler):
    """Hands the exception of each record to a service."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.ERROR)
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            try:
                self.report(record.exc_info[1])
            except Exception:
                self.handleError(record)


def sentry(url: str) -> Report:
    import sentry_sdk

    sentry_sdk.init(dsn=url, default_integrations=False, include_local_variables=False, max_breadcrumbs=0)
    return sentry_sdk.capture_exception


def honeybadger(url: str) -> Report:
    """`url`: https://API-KEY@host."""
    from honeybadger import honeybadger as client

    parts = urlsplit(url)
    endpoint = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    client.configure(api_key=parts.username, endpoint=endpoint, report_local_variables=False, force_report_data=True)
    return client.notify


def new_relic(url: str) -> Report:
    """The agent finds its licence in NEW_RELIC_LICENSE_KEY, or in the file of NEW_RELIC_CONFIG_FILE, as ever."""
    import newrelic.agent

    newrelic.agent.initialize()
    application = newrelic.agent.register_application(timeout=0)

    def report(error: BaseException) -> None:
        newrelic.agent.notice_error((type(error), error, error.__traceback__), application=application)

    return report


SERVICES: dict[str, Callable[[str], Report]] = {"sentry": sentry, "honeybadger": honeybadger, "new_relic": new_relic}


def report_to(service: str, url: str) -> None:
    """From here on faults are reported, too. Raises Refusal when they cannot be. `print`: they stand in the log, as always."""
    if service == "print":
        return
    if service not in SERVICES:
        raise Refusal(f"EXCEPTION_SERVICE={service} is none of print, {', '.join(SERVICES)}: change it, or unset it.")
    module, package = LIBRARIES[service]
    if importlib.util.find_spec(module) is None:
        raise Refusal(f"EXCEPTION_SERVICE={service} needs its library: pip install '{package}'.")
    parts = urlsplit(url)
    if service != "new_relic" and not (parts.scheme in ("https", "http") and parts.username and parts.hostname):
        raise Refusal(f"EXCEPTION_SERVICE={service} needs EXCEPTION_SERVICE_URL, as https://KEY@host/….")
    logging.getLogger().addHandler(Reporting(SERVICES[service](url)))
