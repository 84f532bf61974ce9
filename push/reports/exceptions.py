"""Reports faults of the server to EXCEPTION_SERVICE, by the vendor's own library: exceptions that are logged, and nothing else.

Failing callbacks are not faults of the server. They are in the delivery log. No library may see local variables or headers,
because these contain tokens.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import queue
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from base.refusal import Refusal

Report = Callable[[BaseException], object]
LIBRARIES = {
    "sentry": ("sentry_sdk", "sentry-sdk>=2.40,<3"),
    "honeybadger": ("honeybadger", "honeybadger>=1,<2"),
    "new_relic": ("newrelic", "newrelic>=11"),
}

REGISTER_SECONDS = 10.0  # to wait for New Relic before the first fault is reported
MOST_WAITING = 100  # faults that can wait for New Relic meanwhile


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


class NewRelic:
    """Hands exceptions to New Relic's agent, from a thread that starts with the first exception.

    Registering waits for the network. The agent's threads and session do not survive a fork, and our processes start as forks
    (topics_project/forks.py).

    The agent is not initialized. Otherwise the agent would instrument Django and the log, and send data unrelated to faults.
    """

    def __init__(self) -> None:
        self.waiting: queue.Queue[BaseException] = queue.Queue(MOST_WAITING)
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def __call__(self, error: BaseException) -> None:
        with self.starting:
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.report_forever, name="new-relic", daemon=True)
                self.thread.start()
        with contextlib.suppress(queue.Full):  # the exception is still in the log
            self.waiting.put_nowait(error)

    def report_forever(self) -> None:
        from newrelic import agent

        application = agent.register_application(timeout=REGISTER_SECONDS)
        while True:
            error = self.waiting.get()
            agent.notice_error((type(error), error, error.__traceback__), application=application)
            self.waiting.task_done()


def new_relic(url: str) -> Report:
    """Uses the agent's own settings, such as NEW_RELIC_LICENSE_KEY and NEW_RELIC_APP_NAME.

    Raises Refusal without a license key.
    """
    from newrelic import agent

    settings = agent.global_settings()
    if not settings.license_key:
        raise Refusal(
            "EXCEPTION_SERVICE=new_relic needs NEW_RELIC_LICENSE_KEY: set it to the license key of your account."
        )
    settings.enabled = True
    return NewRelic()


SERVICES: dict[str, Callable[[str], Report]] = {"sentry": sentry, "honeybadger": honeybadger, "new_relic": new_relic}


def report_to(service: str, url: str) -> None:
    """Starts reporting faults. For `print` nothing starts, because faults are in the log anyway.

    Raises Refusal if the service cannot be used.
    """
    if service == "print":
        return
    if service not in SERVICES:
        raise Refusal(f"Invalid EXCEPTION_SERVICE={service}: expected print, {', '.join(SERVICES)}.")
    module, package = LIBRARIES[service]
    if importlib.util.find_spec(module) is None:
        raise Refusal(f"EXCEPTION_SERVICE={service} needs its library: pip install '{package}'.")
    parts = urlsplit(url)
    if service != "new_relic" and not (parts.scheme in ("https", "http") and parts.username and parts.hostname):
        raise Refusal(f"EXCEPTION_SERVICE={service} needs EXCEPTION_SERVICE_URL, as https://KEY@host/….")
    logging.getLogger().addHandler(Reporting(SERVICES[service](url)))
