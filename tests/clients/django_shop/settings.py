"""A Django project in one database with topics: its tables are in the schema `shop`. DB has the parameters of the connection."""

import json
import os

SECRET_KEY = "of a test, which signs nothing"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "topics_client.django",
    "shop",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
CONTEXT_PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": CONTEXT_PROCESSORS},
    }
]
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
ALLOWED_HOSTS = ["*"]
DATABASES = {alias: json.loads(os.environ["DB"]) for alias in ("default", "other")}
TOPICS_DATABASE = None if "TOPICS_URL" in os.environ else "default"
