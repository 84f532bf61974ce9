"""Appends from Spark: each record once, even if Spark retries a task or a batch."""
