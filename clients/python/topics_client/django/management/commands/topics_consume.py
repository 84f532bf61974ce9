"""Runs the handlers of this project."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from topics_client.django.consume import run
from topics_client.django.handlers import handlers


class Command(BaseCommand):
    help = "Runs the handlers of topics and jobs until SIGTERM. Start it as often as you like."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", help="handlers, as TOPIC:GROUP or QUEUE (default: all)")

    def handle(self, *args: Any, names: list[str], **options: Any) -> None:
        if not handlers:
            raise CommandError(
                "no handlers: decorate functions with on_topic or on_job in modules `consumers` of your apps."
            )
        if unknown := [name for name in names if name not in handlers]:
            raise CommandError(f"no handler {unknown[0]}: expected some of {', '.join(sorted(handlers))}.")
        run([handlers[name] for name in names or handlers])
