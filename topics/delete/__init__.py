"""Deletes of records and of topics."""
