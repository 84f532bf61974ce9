"""The wire, declared once: the calls of a server, and how a path is read."""
