"""The pipeline as a Django app: tables, commands, tasks and pages. Starting the app imports no PySpark."""

from django.apps import AppConfig


class PipelineConfig(AppConfig):
    name = "pipeline"
    default_auto_field = "django.db.models.BigAutoField"
