"""PostgreSQL and Redis for a machine that has neither: downloaded with the other dependencies, in a data folder of ours."""

from topics_project.embedded.servers import Servers, ensure, environment, guarded, running, use

__all__ = ["Servers", "ensure", "environment", "guarded", "running", "use"]
