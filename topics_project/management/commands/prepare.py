"""`manage.py prepare`: prepares a host before its processes are started separately (topics_project/operations/prepare.py)."""

from typing import Any

from django.core.management.base import BaseCommand

from topics_project.operations.prepare import WAIT_SECONDS, given_admin, one_at_a_time, prepare_database


class Command(BaseCommand):
    help = (
        "Bring the database up to date, empty the ephemeral topics unless a server already runs, and create the first admin "
        "with TOPICS_ADMIN_PASSWORD. Run this on every host before `run web`, `worker`, `push` or `beat`. `run` does it itself."
    )
    requires_system_checks: list[str] = []  # the migration runs the checks

    def handle(self, *args: Any, **options: Any) -> None:
        with one_at_a_time(self.say, WAIT_SECONDS):
            prepare_database(self.stdout.write)
            if not given_admin():
                self.stdout.write(
                    "the admin has no user yet: set TOPICS_ADMIN_PASSWORD, or run `manage.py createsuperuser`."
                )
        self.stdout.write("the database is ready.")

    def say(self, message: str) -> None:
        """Prints without buffering, because the command then waits."""
        self.stdout.write(message)
        self.stdout.flush()
