"""A web process: its periodic work, memory, sockets and end."""
