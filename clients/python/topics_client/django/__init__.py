"""Topics in a Django project: events in the transaction of your rows, and handlers of topics and jobs.

Put "topics_client.django" into INSTALLED_APPS. Your handlers stand in modules `consumers` of your apps, and
`manage.py topics_consume` runs them. Settings: TOPICS_DATABASE, the alias of the database that topics is in ("default"), or None
if it is elsewhere. Then TOPICS_URL and TOPICS_KEY, as settings or in the environment, lead to the server.
"""

from __future__ import annotations

from topics_client.django.emitting import captured_events, emit
from topics_client.django.handlers import on_job, on_topic

__all__ = ["captured_events", "emit", "on_job", "on_topic"]
