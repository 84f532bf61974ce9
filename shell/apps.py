"""The shell's commands as a Django app, so that `manage.py` finds them."""

from django.apps import AppConfig


class ShellConfig(AppConfig):
    name = "shell"
