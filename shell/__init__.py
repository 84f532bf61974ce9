"""`topics …`: the command line (docs/cli.md). Only local.py, local_stream.py and usage.py need Django and a database."""
