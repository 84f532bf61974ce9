"""The SQL door as a Django app. Its tables are in sql/, and it has no models."""

from django.apps import AppConfig


class DoorConfig(AppConfig):
    name = "door"
