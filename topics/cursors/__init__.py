"""Cursors: those that clients name, and the statements on those that belong to routers, subscriptions and jobs."""
