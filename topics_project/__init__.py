"""The site: settings, endpoints, the web application, and the processes."""

import sys

from base.depth import READ_DEPTH

# msgspec and json count the depth of a value as recursion. The stack of a stream or a thread must not decide what they can read.
sys.setrecursionlimit(READ_DEPTH)

# The only definition of the version: for the package, /v0/health, the admin, and the image's tag.
__version__ = "0.3.0"
