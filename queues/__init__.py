"""Queues: topics whose records are jobs, which workers share (docs/queues.md)."""
