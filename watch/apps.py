"""Streams as a Django app: it has tasks, and no models of its own."""

from django.apps import AppConfig


class WatchConfig(AppConfig):
    name = "watch"
