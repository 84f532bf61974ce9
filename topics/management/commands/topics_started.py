"""`manage.py topics_started`: for servers that are started by hand, once before the first process (topics/upkeep/recovery.py)."""

from typing import Any

from django.core.management.base import BaseCommand

from topics.upkeep.recovery import empty_ephemeral


class Command(BaseCommand):
    help = "Empty the ephemeral topics: call it once when the service starts, before anything else does."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{empty_ephemeral()} ephemeral records are gone")
