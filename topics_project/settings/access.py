"""Access: secrets, keys, names of hosts, TLS and logins."""

import hashlib
import ipaddress
import os
import re
from datetime import timedelta

from base.refusal import Refusal
from embedded.folder import LEAST_SECRET
from topics_project.environment import access, address, is_origin
from topics_project.settings.address import HOST

SECRET_KEY: str = access.hidden(
    "SECRET_KEY",
    "Signs sessions. At least 50 random characters, the same for all processes of a site",
    "you use your own servers",
    shown="generated for the embedded servers",
)
if not SECRET_KEY:
    raise Refusal("SECRET_KEY is not set: set it to a long random string (the same for every process of this site).")
if len(SECRET_KEY) < LEAST_SECRET or len(set(SECRET_KEY)) < 5 or SECRET_KEY.startswith("django-insecure-"):
    raise Refusal(f"SECRET_KEY is easy to guess: set it to a random string of at least {LEAST_SECRET} characters.")
# Sites have different secrets, so two sites can share a Redis.
TOPICS_REDIS_PREFIX: str = (
    address.text(
        "TOPICS_REDIS_PREFIX",
        "",
        "The beginning of all keys, queues and channels in Redis, 1 to 64 characters",
        "sites with one `SECRET_KEY` share a Redis",
        values="text",
        shown="`topics:` and a digest of `SECRET_KEY`",
    )
    or f"topics:{hashlib.sha256(SECRET_KEY.encode()).hexdigest()[:8]}:"
)
if not re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", TOPICS_REDIS_PREFIX):
    raise Refusal("Invalid TOPICS_REDIS_PREFIX: expected 1 to 64 letters, digits, dots, colons, dashes or underscores.")
# wire/access/hosts.py explains the attack that the check prevents.
ALLOWED_HOSTS: list[str] = access.words(
    "ALLOWED_HOSTS",
    "localhost,127.0.0.1,[::1]",
    "Host names that the server answers to. `.example.org` includes subdomains, `*` is any name. If unset, `HOST` is "
    "added. `/v0/health` and `/v0/ready` answer to any name, and `/v0/metrics` to any IP address",
    "clients use another name than `localhost`",
)
CSRF_TRUSTED_ORIGINS: list[str] = access.words(
    "CSRF_TRUSTED_ORIGINS", "", "`https://…` origins of a proxy in front of the admin", "logins fail with 403"
)
# Each origin must be listed, because without keys a caller may do everything (wire/access/cors.py).
CORS_ALLOWED_ORIGINS: list[str] = access.words(
    "CORS_ALLOWED_ORIGINS",
    "",
    "Origins whose pages may call `/v0` from a browser, streams included. The server's own origin needs no entry",
    "pages come from another origin",
)
for _origin in CORS_ALLOWED_ORIGINS:
    if not is_origin(_origin):
        raise Refusal(
            f"Invalid origin {_origin} in CORS_ALLOWED_ORIGINS: expected https://app.example or http://localhost:3000."
        )
# Without a proxy, a client could set the proxy's headers to any value.
TOPICS_TLS_PROXY: bool = access.flag(
    "TOPICS_TLS_PROXY",
    False,
    "`1`: one [proxy](deploy.md#tls-and-proxies) ends TLS, sets `X-Forwarded-Proto`, appends to `X-Forwarded-For`, "
    "and is the only way in. Needs `ALLOWED_HOSTS`",
    "a TLS proxy stands in front",
)
# wire/access/keys.py reads the list.
TOPICS_API_KEYS: str = access.hidden(
    "TOPICS_API_KEYS",
    "API keys as a list of `secret:scopes` or `secret:scopes:prefixes`. `+` joins the scopes `read`, `write`, "
    "`commit`, `delete`, `webhooks`, `admin`, a vertical bar joins prefixes. Beyond loopback a secret needs 16 "
    "characters",
    "you want the [first key](security.md#the-first-key) before the admin is up",
)
TOPICS_INSECURE: bool = access.flag(
    "TOPICS_INSECURE", False, "`1`: listen beyond loopback without keys", "the network itself is trusted"
)
DEBUG: bool = access.flag(
    "DEBUG", False, "Django's error pages. Refused beyond loopback and with a TLS proxy", "you develop topics"
)


def loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


BEYOND_LOOPBACK = not loopback(HOST)  # other machines can reach the port
if not (loopback(HOST) or TOPICS_API_KEYS or TOPICS_INSECURE):
    raise Refusal(f"HOST={HOST} is beyond loopback, and no keys are set: set TOPICS_API_KEYS, or TOPICS_INSECURE=1.")
if DEBUG and (TOPICS_TLS_PROXY or not loopback(HOST)):
    raise Refusal("DEBUG=1 shows internals to every client: unset DEBUG, or unset HOST and TOPICS_TLS_PROXY.")
if TOPICS_TLS_PROXY and not os.environ.get("ALLOWED_HOSTS", "").strip():
    raise Refusal("TOPICS_TLS_PROXY=1 needs ALLOWED_HOSTS: set it to the host names of the proxy.")
for origin in CSRF_TRUSTED_ORIGINS:
    if not origin.startswith(("https://",) if TOPICS_TLS_PROXY else ("https://", "http://")):
        raise Refusal(f"Invalid origin {origin} in CSRF_TRUSTED_ORIGINS: expected https://{origin.rpartition('//')[2]}")
if not os.environ.get("ALLOWED_HOSTS", "").strip() and HOST not in ("0.0.0.0", "::", "[::]", *ALLOWED_HOSTS):
    ALLOWED_HOSTS.append(f"[{HOST.strip('[]')}]" if ":" in HOST else HOST)

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TOPICS_TLS_PROXY else None
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TOPICS_TLS_PROXY
SECURE_HSTS_SECONDS = 30 * 86_400 if TOPICS_TLS_PROXY else 0
# The owner of the domain decides in the proxy whether all subdomains must use TLS permanently.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# operations/prepare.py creates the user.
TOPICS_ADMIN_PASSWORD: str = access.hidden(
    "TOPICS_ADMIN_PASSWORD",
    "Password of the user `admin`, who is created at the start if no admin exists. `make run` generates a password",
    "you use your own servers",
)

# Failed logins to the admin (topics_project/logins.py). The database counts failures of all processes by address. If failures
# were counted by name, a stranger could lock the admin out.
TOPICS_LOGIN_FAILURES: int = access.number(
    "TOPICS_LOGIN_FAILURES",
    10,
    "Failed admin logins before an address is locked out",
    "users lock themselves out",
    least=1,
)
TOPICS_LOGIN_LOCK_SECONDS: int = access.number(
    "TOPICS_LOGIN_LOCK_SECONDS", 300, "Length of the lockout", "users lock themselves out", least=1
)
AXES_FAILURE_LIMIT = TOPICS_LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=TOPICS_LOGIN_LOCK_SECONDS)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # further attempts during the lock do not extend the lock
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_CLIENT_IP_CALLABLE = "topics_project.logins.address"
AXES_LOCKOUT_CALLABLE = "topics_project.logins.locked_out"
AXES_VERBOSE = False
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
