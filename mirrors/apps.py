"""Mirrors as a Django app. Its table is in sql/, and it has no models."""

from django.apps import AppConfig


class MirrorsConfig(AppConfig):
    name = "mirrors"
