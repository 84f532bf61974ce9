#!/usr/bin/env python
"""Django's command line for this site. Without DATABASE_URL it brings its own servers: topics_project/embedded/servers.py."""

import os
import sys

from topics_project import embedded


def main() -> None:
    if sys.argv[1:2] == ["topics"]:  # which starts servers, and Django, only where it is told of no other
        from topics_project import shell

        shell.run(sys.argv[2:])
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    try:
        with embedded.environment():
            from django.core.management import execute_from_command_line

            execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
