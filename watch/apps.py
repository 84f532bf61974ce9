"""Streams as a Django app, with a task (tasks.py) and without models."""

from django.apps import AppConfig


class WatchConfig(AppConfig):
    name = "watch"
