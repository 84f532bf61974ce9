"""`python -m topics_project.embedded DATA`: the guard of the embedded servers of a data folder (servers.py)."""

import sys
from pathlib import Path

from base.refusal import Refusal
from topics_project.embedded.servers import detach

try:
    detach(Path(sys.argv[1]))
except OSError as error:
    raise Refusal(f"the embedded servers could not be started: {error}") from error
