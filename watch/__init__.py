"""Streams of topics: server-sent events, long polls, and django-eventstream."""
