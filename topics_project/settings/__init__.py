"""All settings, each declared once, in the module of its subject, and read from the environment. docs/settings.md lists them.

An invalid value stops any process at its start with a one-line message. Without DATABASE_URL, REDIS_URL or SECRET_KEY,
`manage.py` sets the embedded servers' values (embedded/servers.py). This module has the fixed settings of Django.
"""

from pathlib import Path

from topics_project import __version__
from topics_project.environment import refuse_unknown
from topics_project.settings.access import *  # noqa: F403
from topics_project.settings.address import *  # noqa: F403
from topics_project.settings.celery import *  # noqa: F403
from topics_project.settings.console import *  # noqa: F403
from topics_project.settings.limits import *  # noqa: F403
from topics_project.settings.processes import *  # noqa: F403
from topics_project.settings.processes import TOPICS_LOG
from topics_project.settings.push import *  # noqa: F403
from topics_project.settings.servers import *  # noqa: F403
from topics_project.settings.spark import *  # noqa: F403

refuse_unknown()

BASE_DIR = Path(__file__).resolve().parent.parent.parent
VERSION: str = __version__
# The wheel keeps templates inside this package, because another package could install a folder `templates` beside the package.
TEMPLATES_DIR = BASE_DIR / "topics_project" / "templates"
if not TEMPLATES_DIR.exists():
    TEMPLATES_DIR = BASE_DIR / "templates"

INSTALLED_APPS = [
    "console.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular_sidecar",
    "django_eventstream",
    "axes",
    "topics_project",
    "topics",
    "watch",
    "groups",
    "mirrors",
    "queues",
    "door",
    "outbox",
    "routers",
    "pipeline",
    "push",
    "console",
]

SESSION_ENGINE = "console.sessions"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "wire.access.actor.middleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "topics_project.urls"
APPEND_SLASH = False  # a redirected POST would lose its body
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # TOPICS_MAX_BODY_BYTES is the limit, refused before the body is read

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATES_DIR],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False  # lookups of Django's texts in an English catalog took a quarter of a page's time

STATIC_URL = "/static/"
WHITENOISE_ALLOW_ALL_ORIGINS = False  # no page of another site needs the files
WHITENOISE_USE_FINDERS = True  # serves the admin's files from their packages, without collectstatic

REST_FRAMEWORK = {
    "UNAUTHENTICATED_USER": None,  # keys identify the caller (wire/endpoint.py)
    "URL_FORMAT_OVERRIDE": None,  # the Accept header chooses the format
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
        "json": {"()": "base.json_log.JsonFormatter"},
    },
    "filters": {"one_line": {"()": "base.redis_client.OneLine"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json" if TOPICS_LOG == "json" else "text",
            "filters": ["one_line"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "axes": {"level": "ERROR"},  # its lines of failed logins have no address (topics_project/logins.py)
        "websockets": {"level": "WARNING"},  # it reports the end of each socket
        "django.request": {"level": "ERROR"},  # a 4xx is reported to the client, not in the log
    },
}
