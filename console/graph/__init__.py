"""The graph page: topics and routers, their picture, and the readers, queues and webhooks in it."""
