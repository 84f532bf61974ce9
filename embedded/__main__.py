"""`python -m embedded DATA`: starts the guard of the embedded servers of a data folder (servers.py)."""

import sys
from pathlib import Path

from embedded.folder import usable
from embedded.servers import detach

with usable():
    detach(Path(sys.argv[1]))
