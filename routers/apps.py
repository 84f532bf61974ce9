"""Forwarding from one topic to another, by span: the Django app."""

from django.apps import AppConfig


class RoutersConfig(AppConfig):
    name = "routers"
    default_auto_field = "django.db.models.BigAutoField"
