"""Whether everything that `make run` installs is there as a wheel on each platform. Part of `make lock`: it asks the registry.

What has to be compiled would need a compiler on a stranger's machine: it fails here.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin", "x86_64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LOCK = "requirements-embedded.lock"
PURE = {"django-grip", "gripcontrol", "pubcontrol"}  # they come as source alone, which is Python alone


def refusal(platform: str, python: str) -> str:
    """Why the lock file cannot be installed there; nothing where it can."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / LOCK).read_text(), re.MULTILINE)
    wheels = [word for name in names if name not in PURE for word in ("--only-binary", name)]
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-deps", *wheels]
        argv += ["--target", folder, "--python-platform", platform, "--python-version", python, "-r", LOCK]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def main() -> str | None:
    """Returns what fails; None when nothing does."""
    wanting = [
        f"{platform}, Python {python}:\n{why}"
        for platform in PLATFORMS
        for python in PYTHONS
        if (why := refusal(platform, python))
    ]
    print(f"{LOCK} was held against {len(PLATFORMS)} platforms and {len(PYTHONS)} versions of Python.")
    return "\n".join(wanting) or None


if __name__ == "__main__":
    sys.exit(main())
