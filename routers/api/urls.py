"""Table of contents of /v0/routers."""

from routers.api import routers

endpoints = (routers.list_routers, routers.put, routers.get, routers.delete)
