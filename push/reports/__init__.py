"""Reports to other services, as Routemaster sends them: the metrics of its page, and faults of the server."""
