"""PostgreSQL and Redis for a machine without them.

The programs are installed with the other dependencies. The data is in TOPICS_DATA.
"""

from embedded.folder import data_dir
from embedded.servers import Servers, ensure, environment, guarded, is_used, running, use

__all__ = ["Servers", "data_dir", "ensure", "environment", "guarded", "is_used", "running", "use"]
