"""`manage.py doctor`: looks at a deployment, and says what to change (topics_project/operations/doctor.py)."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from base.units import counted
from topics_project.operations.doctor import FAULT, findings


class Command(BaseCommand):
    help = (
        "Look at this deployment: versions, settings, PostgreSQL, replication, Redis, processes, clocks, disk, limits, proxy. "
        "For each problem the command names the change. Run it on a host of the deployment, with the settings of its processes. "
        "After a fault the exit code is 1."
    )
    requires_system_checks: list[str] = []  # a check that fails would hide the findings

    def add_arguments(self, parser: CommandParser) -> None:
        told = "also check this address of a proxy in front, with the key in TOPICS_KEY"
        parser.add_argument("--url", default="", help=told)

    def handle(self, *args: Any, **options: Any) -> None:
        faults = 0
        for level, subject, seen, advice in findings(options["url"], os.environ.get("TOPICS_KEY", "")):
            self.stdout.write(f"{level:<8} {subject}: {seen}." + (f" {advice}" if advice else ""))
            self.stdout.flush()
            faults += level == FAULT
        if faults:
            raise CommandError(counted(faults, "fault"))
