"""`manage.py run`: runs the whole product in the foreground (topics_project/supervisor.py)."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from topics_project import supervisor


class Command(BaseCommand):
    help = (
        "Run the web server, the Celery worker, push and beat until Ctrl-C. "
        "Without DATABASE_URL and REDIS_URL, also run PostgreSQL and Redis."
    )
    requires_system_checks: list[str] = []  # the migration and the web server run the checks

    def get_version(self) -> str:
        return f"topics {settings.VERSION}"

    def add_arguments(self, parser: CommandParser) -> None:
        one = "run only this process, with DATABASE_URL and REDIS_URL, under systemd or Docker"
        parser.add_argument("process", nargs="?", choices=list(supervisor.PROCESSES), help=one)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["process"]:
            supervisor.become(options["process"], self.say)
        else:
            supervisor.run(self.say)

    def say(self, message: str) -> None:
        """Prints without buffering, also into a file, because a caller may wait for the line."""
        self.stdout.write(message)
        self.stdout.flush()
