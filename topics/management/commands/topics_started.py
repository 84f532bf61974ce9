"""`manage.py topics_started`: run this command before the first process, if you start processes one by one
(topics/upkeep/recovery.py)."""

from typing import Any

from django.core.management.base import BaseCommand

from topics.upkeep.recovery import empty_ephemeral


class Command(BaseCommand):
    help = "Empty the ephemeral topics, unless somebody serves the database: call it when a host starts, before its processes do."

    def handle(self, *args: Any, **options: Any) -> None:
        gone = empty_ephemeral()
        served = "this database is served already: its ephemeral records stay"
        self.stdout.write(served if gone is None else f"{gone} ephemeral records are gone")
