"""Runs pytest with the arguments it is given (`make test`). What failed beside other tests runs once more, alone.

If all of that passes then, the run has passed, and names these tests in capitals with their first errors: each of them is the
next thing to mend. After more than MOST failures there is no second run, and none after a run that ended early.
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
SEVERAL = {"--numprocesses": 1, "--maxprocesses": 1, "--dist": 1, "--no-loadscope-reorder": 0}  # with their values
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
            print(f"{len(failed)} tests failed, and after more than {MOST} none runs again.")
            return code
        print("\nWhat failed runs once more, alone.", flush=True)
        code, _ = run(["--last-failed", "--last-failed-no-failures", "none", *alone(arguments)], cache)
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


def alone(arguments: list[str]) -> list[str]:
    """Returns the arguments without those that ask for several processes."""
    kept, rest = [], iter(arguments)
    for each in rest:
        if each not in SEVERAL:
            kept.append(each)
        else:
            for _ in range(SEVERAL[each]):
                next(rest)
    return kept


def first_error(test: str, printed: list[str]) -> str:
    """Returns the line of the summary with this test and the first line of its error."""
    return next((line for line in printed if line.startswith((f"FAILED {test}", f"ERROR {test}"))), test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
