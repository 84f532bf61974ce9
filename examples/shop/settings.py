"""The settings of a small Django project. libpq's variables name its database: PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD.

Its tables are in the schema of its login. Topics has a schema of its own in this database, so one transaction spans both.
"""

import os

SECRET_KEY = os.environ.get("SECRET_KEY", "for an example on your own machine")
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = ["orders"]
ROOT_URLCONF = "urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE", "shop")}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
