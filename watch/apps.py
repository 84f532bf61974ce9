"""Streams as a Django app: it has a task (tasks.py), and no models of its own."""

from django.apps import AppConfig


class WatchConfig(AppConfig):
    name = "watch"
