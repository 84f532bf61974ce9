"""The log: topics, their records and cursors."""
