"""`manage.py topics_started`: run this command before the first process, if you start processes one by one
(topics/upkeep/recovery.py)."""

from typing import Any

from django.core.management.base import BaseCommand

from topics.upkeep.recovery import empty_ephemeral


class Command(BaseCommand):
    help = "Empty the ephemeral topics, unless a server already uses the database. Run this when a host starts."

    def handle(self, *args: Any, **options: Any) -> None:
        gone = empty_ephemeral()
        served = "a server already uses this database: ephemeral records stay"
        self.stdout.write(served if gone is None else f"deleted {gone} ephemeral records")
