"""PostgreSQL and Redis for a machine without them.

The programs are installed with the other dependencies. The data is in TOPICS_DATA.
"""

from topics_project.embedded.servers import Servers, ensure, environment, guarded, running, use

__all__ = ["Servers", "ensure", "environment", "guarded", "running", "use"]
