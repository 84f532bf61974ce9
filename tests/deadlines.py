"""How long a test waits for what must come. A deadline costs time only if something is wrong.

PATIENCE in the environment multiplies all of them. `.ci/run` sets it, because its machine may be busy.
"""

import os

DEADLINE = 60 * float(os.environ.get("PATIENCE") or 1)  # seconds
