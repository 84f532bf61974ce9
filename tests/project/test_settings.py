"""Every process refuses invalid settings in one line. docs/settings.md lists all settings."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from psycopg.conninfo import conninfo_to_dict

from base.refusal import Refusal
from shell.cli import program
from tests.instances import OURS, ROOT
from tests.preloaded import run
from topics_project import environment, reference

pytestmark = pytest.mark.deep(40)


GOOD = {"DATABASE_URL": "postgresql://u@localhost/d", "REDIS_URL": "redis://localhost", "SECRET_KEY": "abcde" * 10}
PRODUCTION = {
    "HOST": "0.0.0.0",
    "ALLOWED_HOSTS": "topics.example",
    "TOPICS_API_KEYS": "a-secret-of-some-length:read+write",
    "TOPICS_TLS_PROXY": "1",
}
PROCESSES = {
    "names": ["-c", "from topics_project.settings import ALLOWED_HOSTS; print(*ALLOWED_HOSTS)"],
    "secrets": [
        "-c",
        "from topics_project import settings as s; "
        "print(s.SECRET_KEY, s.REDIS_URL, s.TOPICS_API_KEYS, s.DATABASE_URL, s.DATABASES['default']['PASSWORD'], sep='\\n')",
    ],
    "check --deploy": ["manage.py", "check", "--deploy", "--fail-level", "DEBUG"],
    "manage.py": ["manage.py", "check"],
    "doctor": ["manage.py", "doctor"],
    "migrate": ["manage.py", "migrate"],
    "web": ["-m", "topics_project.web"],
    "celery": ["-m", "celery", "-A", "topics_project.celery", "worker"],
}


def start(process: str, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in (*OURS, "TOPICS_DATA")}
    return run([sys.executable, *PROCESSES[process]], {**inherited, **GOOD, **settings}, ROOT)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"PORT": "http"}, "topics: Invalid PORT=http: expected a whole number from 1 to 65535"),
        ({"PORT": "70000"}, "topics: Invalid PORT=70000: expected a whole number from 1 to 65535"),
        (
            {"TOPICS_MAX_TOPICS": "-1"},
            "topics: Invalid TOPICS_MAX_TOPICS=-1: expected a whole number from 0 to 2147483647",
        ),
        (
            {"TOPICS_STATEMENT_TIMEOUT_MS": "4294967296"},
            "topics: Invalid TOPICS_STATEMENT_TIMEOUT_MS=4294967296: expected a whole number from 0 to 2147483647",
        ),
        (
            {"TOPICS_LOGIN_LOCK_SECONDS": "9" * 20},
            f"topics: Invalid TOPICS_LOGIN_LOCK_SECONDS={'9' * 20}: expected a whole number",
        ),
        ({"TOPICS_STRICT": "maybe"}, "topics: Invalid TOPICS_STRICT=maybe: expected 1 or 0"),
        ({"DATABASE_URL": "mysql://u@localhost/d"}, "topics: Invalid DATABASE_URL: expected a PostgreSQL URL"),
        ({"REDIS_URL": "localhost:6379"}, "topics: Invalid REDIS_URL: expected redis://"),
        ({"SECRET_KEY": ""}, "topics: SECRET_KEY is not set"),
        ({"SECRET_KEY": "abcde" * 9}, "topics: SECRET_KEY is easy to guess: set it to a random string of at least 50"),
        ({"SECRET_KEY": "x" * 60}, "topics: SECRET_KEY is easy to guess"),
        ({"SECRET_KEY": "django-insecure-" + "abcde" * 10}, "topics: SECRET_KEY is easy to guess"),
        ({"DEBUG": "1", "HOST": "0.0.0.0", "TOPICS_INSECURE": "1"}, "topics: DEBUG=1 shows internals to every client"),
        ({"DEBUG": "1", "TOPICS_TLS_PROXY": "1"}, "topics: DEBUG=1 shows internals to every client"),
        ({"TOPICS_TLS_PROXY": "1"}, "topics: TOPICS_TLS_PROXY=1 needs ALLOWED_HOSTS"),
        (
            {"CSRF_TRUSTED_ORIGINS": "a.example"},
            "topics: Invalid origin a.example in CSRF_TRUSTED_ORIGINS: expected https://a.e",
        ),
        (
            {"TOPICS_TLS_PROXY": "1", "ALLOWED_HOSTS": "a.example", "CSRF_TRUSTED_ORIGINS": "http://a.example"},
            "topics: Invalid origin http://a.example in CSRF_TRUSTED_ORIGINS: expected https://a.example",
        ),
        (
            {"TOPICS_SPARK_MEMORY": "much"},
            "topics: Invalid TOPICS_SPARK_MEMORY=much: expected 1g or 512m",
        ),
        (
            {"TOPICS_JDBC_DRIVER": "postgresql"},
            "topics: Invalid TOPICS_JDBC_DRIVER=postgresql: expected a .jar or group:artif",
        ),
        ({"TOPICS_LOGIN_FAILURES": "0"}, "topics: Invalid TOPICS_LOGIN_FAILURES=0: expected a whole number from 1"),
        (
            {"TOPICS_PROCESSES": "worker,beet"},
            "topics: Invalid TOPICS_PROCESSES: expected worker, push and beat",
        ),
        (
            {"TOPICS_BUS_DURABILITY": "memory"},
            "topics: Invalid TOPICS_BUS_DURABILITY=memory: expected disk or fsync.",
        ),
        (
            {"ROUTEMASTER_UNKNOWN_TOPICS": "ignore"},
            "topics: Invalid ROUTEMASTER_UNKNOWN_TOPICS=ignore: expected accept or reject.",
        ),
        ({"TOPICS_MAX_TOPIC": "7"}, "topics: Unknown setting TOPICS_MAX_TOPIC: did you mean TOPICS_MAX_TOPICS?"),
        ({"TOPICS_XYZZY": "7"}, "topics: Unknown setting TOPICS_XYZZY: unset it."),
        (
            {"CORS_ALLOWED_ORIGINS": "https://a.example,*"},
            "topics: Invalid origin * in CORS_ALLOWED_ORIGINS: expected",
        ),
        (
            {"TOPICS_GATEWAYS": "http://10.0.0.1:4100,10.0.0.2:4100"},
            "topics: Invalid address 10.0.0.2:4100 in TOPICS_GATEWAYS: expected http://10.0.0.1:4100, for example.",
        ),
        (
            {"TOPICS_GATEWAYS": "http://user:secret@10.0.0.1:4100"},
            "topics: Invalid address http://user:secret@10.0.0.1:4100 in TOPICS_GATEWAYS: ",
        ),
        (
            {"TOPICS_GATEWAYS": "http://10.0.0.1:4100,http://10.0.0.1:4100"},
            "topics: Invalid TOPICS_GATEWAYS: expected at most 32 addresses, each only once.",
        ),
        ({"HOST": "0.0.0.0"}, "topics: HOST=0.0.0.0 is beyond loopback, and no keys are set"),
    ],
)
def test_a_bad_setting_is_refused(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], line: str) -> None:
    """Read anew in this process: what a process of its own makes of a refusal is the next tests' matter."""
    monkeypatch.setattr(environment, "SETTINGS", {})
    for name in (*OURS, "TOPICS_DATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**GOOD, **settings}.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in sys.modules if name.startswith("topics_project.settings")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Refusal) as refused:
        import_module("topics_project.settings")
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"ROUTEMASTER_ROOT_KEY": "hush", "ROUTEMASTER_CLIENTS": "shop--1,hush"},
            "topics: Invalid ROUTEMASTER_CLIENTS: entry 2 is ROUTEMASTER_ROOT_KEY.",
        ),
        (
            {"ROUTEMASTER_ROOT_KEY": "hush", "ROUTEMASTER_CLIENTS": "shop--1,hush:x"},
            "topics: Invalid ROUTEMASTER_CLIENTS: entry 2 and ROUTEMASTER_ROOT_KEY look the same in HTTP Basic, "
            "because one is the start of the other, up to a colon. Change one.",
        ),
        (
            {"ROUTEMASTER_CLIENTS": "shop:b2,bills,shop"},
            "topics: Invalid ROUTEMASTER_CLIENTS: entry 3 and entry 1 look the same in HTTP Basic",
        ),
        (
            {"TOPICS_API_KEYS": "hush:read,hush2:reed"},
            "topics: Invalid TOPICS_API_KEYS: invalid entry 2: expected secret:",
        ),
        (
            {"TOPICS_API_KEYS": "hush:read,write"},
            "topics: Invalid TOPICS_API_KEYS: entry 2 is only a scope: join",
        ),
        (
            {"TOPICS_API_KEYS": ",", "HOST": "0.0.0.0"},
            "topics: Invalid TOPICS_API_KEYS: the setting has no",
        ),
        (
            {"TOPICS_API_KEYS": "hush-of-sixteen-c:read,fifteen-letters:read", "HOST": "0.0.0.0"},
            "topics: Invalid TOPICS_API_KEYS: entry 2 has a secret of 15 characters: "
            "expected at least 16, or a loopback address as HOST.",
        ),
        ({"PORT": "http"}, "topics: Invalid PORT=http: expected a whole number from 1 to 65535"),
    ],
)
def test_a_refusal_is_one_line(settings: dict[str, str], line: str) -> None:
    refused = start("manage.py", **settings)
    assert refused.returncode == 1
    assert refused.stderr.startswith(line)
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("process", ["web", "celery"])
def test_every_process_refuses(process: str) -> None:
    refused = start(process, WEB_THREADS="none")
    assert refused.returncode != 0
    assert "topics: Invalid WEB_THREADS=none: expected a whole number from 1" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr


def variables_of(command: click.Command) -> set[str]:
    """The variables that this command and the commands below it read."""
    within = command.commands.values() if isinstance(command, click.Group) else ()
    own = {str(each.envvar) for each in command.params if each.envvar}
    return own.union(*map(variables_of, within))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"HOST": "::1"},
        {"TOPICS_PROCESSES": ""},
        {"TOPICS_SERVICE_HOST": "10.0.0.7", "TOPICS_PORT": "tcp://10.0.0.7:4000"},  # as Kubernetes has it
        {"TOPICS_API_KEYS": "short:read"},
        dict.fromkeys(variables_of(program), "secret"),  # for commands (docs/cli.md)
        {"TOPICS_JOB_TOPIC": "t", "TOPICS_JOB_SEQ": "1", "TOPICS_JOB_TAG": "", "TOPICS_JOB_DELIVERIES": "1"},
        {"HOST": "localhost", "CORS_ALLOWED_ORIGINS": "https://app.example, http://localhost:3000"},
        {"HOST": "0.0.0.0", "TOPICS_INSECURE": "1"},
        {"HOST": "0.0.0.0", "TOPICS_API_KEYS": "a-secret-of-some-length:read+write"},
        {"DATABASE_URL": "postgresql://u:p@/d?host=/tmp&sslmode=disable"},
    ],
)
def test_good_settings_start(settings: dict[str, str]) -> None:
    assert start("manage.py", **settings).stderr == ""


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    files = {}
    for name, value in {**GOOD, "DATABASE_PASSWORD": "p@ss w/ord", "TOPICS_API_KEYS": "hush:read"}.items():
        (tmp_path / name).write_text(f"{value}\n")
        files[f"{name}_FILE"] = str(tmp_path / name)
    shown = start("secrets", **dict.fromkeys(GOOD, ""), **files).stdout.splitlines()
    assert shown[:3] == [GOOD["SECRET_KEY"], GOOD["REDIS_URL"], "hush:read"]
    assert conninfo_to_dict(shown[3]) == {"user": "u", "host": "localhost", "dbname": "d", "password": "p@ss w/ord"}
    assert shown[4:] == ["p@ss w/ord"]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"SECRET_KEY_FILE": "/no/such"}, "topics: SECRET_KEY and SECRET_KEY_FILE are both set: unset one of the two."),
        (
            {"TOPICS_API_KEYS_FILE": "/no/such"},
            "topics: TOPICS_API_KEYS_FILE=/no/such cannot be read (No such file or ",
        ),
        ({"TOPICS_API_KEYS_FILE": "/dev/null"}, "topics: TOPICS_API_KEYS_FILE=/dev/null is empty: write the secret"),
        ({"TOPICS_TLS_PROXY_FILE": "/dev/null"}, "topics: Unknown setting TOPICS_TLS_PROXY_FILE"),
        (
            {"DATABASE_URL": "postgresql://u:p@localhost/d", "DATABASE_PASSWORD": "q"},
            "topics: DATABASE_PASSWORD is set, and DATABASE_URL also contains a password",
        ),
    ],
)
def test_a_secret_file_that_cannot_be_used_is_refused(settings: dict[str, str], line: str) -> None:
    refused = start("secrets", **settings)
    assert refused.returncode == 1
    assert refused.stderr.startswith(line)
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("password", "refused"),
    [
        ("se@cret", {"DATABASE_URL"}),
        ("hunt/er2", {"DATABASE_URL", "REDIS_URL"}),
        ("1234/cret", {"DATABASE_URL", "REDIS_URL"}),
        ("1234?key=cret", {"REDIS_URL"}),
        ("hunt#er2", {"REDIS_URL"}),
        ("hunt?er2", {"REDIS_URL"}),
        ("hunt%er2", {"DATABASE_URL"}),
        ("hunt er2", {"DATABASE_URL"}),
        ("[abz]xyz", {"REDIS_URL"}),
        ("abz@xyz/qrs", {"DATABASE_URL", "REDIS_URL"}),
        ("abz@xyz:4321", {"DATABASE_URL"}),
        ("abz/xyz?qrs", {"DATABASE_URL", "REDIS_URL"}),
        ("abz@xyz?qrs", {"DATABASE_URL", "REDIS_URL"}),
        ("abz%40xyz%2Fqrs", set()),
    ],
)
def test_no_part_of_a_password_is_printed(password: str, refused: set[str]) -> None:
    pieces = [piece for piece in re.split(r"[^a-z0-9]+", password) if len(piece) > 2]
    address = f"user:{password}@127.0.0.1:1/0"
    for name, url in {"DATABASE_URL": f"postgresql://{address}", "REDIS_URL": f"redis://{address}"}.items():
        for command in ("migrate", "doctor"):
            done = start(command, **{"DATABASE_URL": "postgresql://u@127.0.0.1:1/d", name: url})
            said = done.stdout + done.stderr
            assert not [piece for piece in pieces if piece in said], said
            assert done.returncode == 1
            if name in refused:
                assert re.fullmatch(rf"topics: Invalid {name}: expected .*: percent-encode the password .*\n", said)
            else:
                assert "Invalid" not in said


def test_an_origin_is_written_as_browsers_write_it() -> None:
    assert all(map(environment.is_origin, ["https://app.example", "http://localhost:3000", "http://[::1]:8080"]))
    wrong = [
        "",
        "*",
        "null",
        "app.example",
        "https://",
        "https://app.example/",
        "https://a.example/page",
        "ftp://a.example",
    ]
    wrong += [
        "https://*.example",
        "https://App.example",
        "https://a.example:443",
        "http://a.example:80",
        "https://a.example:x",
    ]
    assert [origin for origin in wrong if environment.is_origin(origin)] == []


def test_production_passes_every_check_of_a_deployment() -> None:
    assert start("check --deploy", **PRODUCTION).stderr == ""


@pytest.mark.parametrize(("host", "name"), [("192.0.2.1", "192.0.2.1"), ("::2", "[::2]"), ("topics.lan", "topics.lan")])
def test_the_address_it_listens_on_is_a_name_of_its_own(host: str, name: str) -> None:
    assert start("names", HOST=host, TOPICS_INSECURE="1").stdout == f"localhost 127.0.0.1 [::1] {name}\n"
    assert start("names", HOST="0.0.0.0", TOPICS_INSECURE="1").stdout == "localhost 127.0.0.1 [::1]\n"
    assert start("names", HOST=host, TOPICS_INSECURE="1", ALLOWED_HOSTS="a.example").stdout == "a.example\n"


def test_the_page_of_the_settings_is_made_from_their_declaration() -> None:
    """`.ci/settings.py` writes it."""
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == reference.page()
    assert "| `PORT` | `4000`; 1 to 65535 |" in page
    secrets = set(re.findall(r"^\| `(\w+)` \|[^|]*; secret \|", page, re.MULTILINE))
    assert secrets == {name for name, setting in environment.SETTINGS.items() if setting.is_secret}
