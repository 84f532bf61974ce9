"""Runs pytest with the given arguments (`make test`). A test that fails beside other tests runs once more, alone.

If all failed tests pass then, the run passes, and names them in capitals with their first errors, because each of them hides a
race. After more than MOST failures, and after a run that ended early, there is no second run.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 10  # failures that run again
FAILED = 1  # pytest's exit code, if all tests ran and some failed
ONCE_MORE = ("--last-failed", "--last-failed-no-failures", "none", "--numprocesses", "0", "--dist", "no")
ENDS_EARLY = re.compile(r"-x|--exitfirst|--maxfail.*")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, lambda *_: None)  # pytest gets it, too, and ends with its report
    with tempfile.TemporaryDirectory(prefix="topics-tests-again-") as cache:
        code, printed = run(arguments, cache)
        failed = failures(Path(cache))
        if (
            code != FAILED
            or not failed
            or "--numprocesses" not in arguments
            or any(map(ENDS_EARLY.fullmatch, arguments))
        ):
            return code
        if len(failed) > MOST:
            print(f"{len(failed)} tests failed, so none runs again: at most {MOST} do.")
            return code
        print("\nThe failed tests run once more, alone.", flush=True)
        code, _ = run([*arguments, *ONCE_MORE], cache)
        if code == 0:
            print(
                "\nPASSED ONLY THE SECOND TIME, ALONE:",
                *(f"    {first_error(each, printed)}" for each in failed),
                sep="\n",
            )
        return code


def run(arguments: list[str], cache: str) -> tuple[int, list[str]]:
    """Returns the exit code of pytest, and what it printed. Two runs at once have a cache each."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    if sys.stdout.isatty():
        command.append("--color=yes")
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(COLOUR.sub("", line.rstrip()))
    return process.returncode, printed


def failures(cache: Path) -> list[str]:
    """Returns the ids of the tests that failed in the last run."""
    noted = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(noted.read_text())) if noted.exists() else []


def first_error(test: str, printed: list[str]) -> str:
    """Returns the line of the summary with this test and the first line of its error."""
    return next((line for line in printed if line.startswith((f"FAILED {test}", f"ERROR {test}"))), test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
