#!/usr/bin/env python
"""Django's command line for this site. Without DATABASE_URL it brings its own servers: topics_project/embedded/servers.py."""

import os
import sys

from topics_project import embedded, shell


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    try:
        if shell.is_called(sys.argv[1:]):  # which starts servers, and Django, only where it is told of no other
            shell.run(sys.argv[1:])
            return
        with embedded.environment():
            from django.core.management import execute_from_command_line

            execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
