"""The command line: `topics` if the package is installed, `manage.py` in a clone, and `python -m topics_project` in both.

Shell commands (shell.py) have their own names, with or without `topics` before the name. All other commands are commands of
`manage.py`. Without DATABASE_URL the command starts embedded servers (embedded/servers.py).
"""

import gc
import os
import sys
from pathlib import Path

from shell.streams import escape_output
from topics_project import __version__, shell

USAGE = """\
usage: {0} run                       run all processes on http://127.0.0.1:4000 (or HOST, PORT, TOPICS_DATA)
       {0} run web|worker|push|beat  run one process, with DATABASE_URL and REDIS_URL
       {0} migrate                   create or update the tables in DATABASE_URL
       {0} doctor                    look at a deployment, and say what to change
       {0} topics COMMAND …          work with topics; `{0} topics --help` lists the commands
       {0} gateway COMMAND …         several servers behind one address; `{0} gateway --help` lists the commands
       {0} pipeline JOB …            run a job on Spark
       {0} help                      list all commands
       {0} --version"""


def main() -> None:
    """Runs `manage.py` and `topics` with the arguments of this process."""
    # Startup creates no garbage. A collection every 700 objects, Python's default, would take a quarter of the startup time.
    gc.set_threshold(50_000)
    escape_output()
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["version"]):
        print(f"topics {__version__}")
        return
    # Shell completion runs without arguments.
    if arguments in ([], ["--help"], ["-h"]) and not shell.is_called(arguments):
        name = Path(sys.argv[0]).name
        print(USAGE.format("python -m topics_project" if name == "__main__.py" else name))
        return
    words = arguments[1:] if arguments[:1] == ["topics"] else arguments
    if words[:1] == ["gateway"]:
        from gateway import cli  # the gateway needs neither Django nor local servers

        cli.main(words[1:], f"{Path(sys.argv[0]).name} gateway")
        return
    # The shell can be that of another Django project, whose settings have none of our commands.
    os.environ["DJANGO_SETTINGS_MODULE"] = "topics_project.settings"
    try:
        if shell.is_called(arguments):  # shell commands start servers and Django only if no other server is given
            shell.run(arguments)
            return
        import embedded

        with embedded.environment():
            from django.core.management import execute_from_command_line

            execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
