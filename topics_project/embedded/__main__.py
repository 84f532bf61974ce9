"""`python -m topics_project.embedded DATA`: starts the guard of the embedded servers of a data folder (servers.py)."""

import sys
from pathlib import Path

from topics_project.embedded.folder import usable
from topics_project.embedded.servers import detach

with usable():
    detach(Path(sys.argv[1]))
