"""The benchmark: a real server as `make run` starts it, under load from outside, compared with the raw limit of the same run."""

import sys
from pathlib import Path

# The Python client has a wheel of its own, which is not installed here. pyproject.toml tells pytest where it is.
sys.path.append(str(Path(__file__).parent.parent / "clients" / "python"))
