"""The clients' tests.

pytest parses the modules of its plugins when they load, and anyio, which httpx uses, is one. It loads its event loop at the first
call, which can be in several threads at once, and two that parse make Python before 3.11.8 fail (gh-106905). So it loads here.
"""

import anyio._backends._asyncio  # noqa: F401
