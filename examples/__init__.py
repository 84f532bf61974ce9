"""Programs to start with. They use the Python client of this clone, so that it need not be installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "clients" / "python"))
