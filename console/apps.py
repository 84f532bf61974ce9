"""The console as a Django app, and the admin that it lives in."""

from django.apps import AppConfig
from django.contrib.admin import apps


class AdminConfig(apps.AdminConfig):
    """Django's admin with our site class."""

    default = False  # the package's default app is ConsoleConfig
    default_site = "console.pages.ConsoleSite"


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "console"
