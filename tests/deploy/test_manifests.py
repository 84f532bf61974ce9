"""docker-compose.yml, Dockerfile, deploy/kubernetes.yaml and deploy/systemd/: well formed, and true of this project."""

from __future__ import annotations

import copy
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, free_port, until
from tests.processes import child_process
from tests.project.test_two_hosts import joining
from topics_project import environment
from topics_project.supervisor import PROCESSES

pytestmark = pytest.mark.deep(39)


COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
KUBERNETES = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-1.37.json").read_text())
UNITS = ROOT / "deploy" / "systemd"
OURS = {name: each for name, each in COMPOSE["services"].items() if each.get("image", "").startswith("topics:")}
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in KUBERNETES if each["kind"] == "Deployment"
}
IMAGE = [line.partition(" ")[::2] for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
MOST_HEARTBEAT_SECONDS = 60  # of a watch (docs/wire.md)
SETTINGS = {*environment.SETTINGS, *(f"{name}_FILE" for name, each in environment.SETTINGS.items() if each.is_secret)}


def image(instruction: str) -> list[str]:
    """The arguments of these instructions of the image's last stage."""
    last = max(place for place, (name, _) in enumerate(IMAGE) if name == "FROM")
    return [arguments for name, arguments in IMAGE[last:] if name == instruction]


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for line in image("ENV") for word in line.split())


def copied() -> Iterator[Path]:
    """The project's files that .dockerignore leaves to the image."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in kept:
        if not any(fnmatch.fnmatch(name.split("/")[0], pattern) for pattern in ignored):
            yield Path(name)


def test_the_image_is_slim_and_runs_as_nobody_with_what_it_needs() -> None:
    assert re.fullmatch(r"python:3\.1[1-4]-slim", image("FROM")[0])
    assert image("USER") == ["65534:65534"]
    given = image_environment()
    assert {"TOPICS_DATA", "HOST", "PORT"} <= set(given)
    assert image("EXPOSE") == [given["PORT"]]
    assert image("CMD") == ['["python", "manage.py", "run", "web"]']


def test_the_image_has_the_programs_for_a_backup_of_the_postgresql_of_compose() -> None:
    major = COMPOSE["services"]["postgres"]["image"].removeprefix("postgres:")
    assert re.findall(r"postgresql-client-(\d+)", (ROOT / "Dockerfile").read_text()) == [major]


def test_what_is_copied_into_the_image_is_enough(tmp_path: Path) -> None:
    for name in copied():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert not (tmp_path / "tests").exists()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOPICS_")}
    for argv in (["-m", "compileall", "-q", "."], ["manage.py", "check"], ["manage.py", "makemigrations", "--check"]):
        done = subprocess.run(
            [sys.executable, *argv], cwd=tmp_path, env=inherited, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), argv


def test_compose_listens_on_this_machine_alone_and_passes_settings_that_there_are() -> None:
    ports = [port for each in COMPOSE["services"].values() for port in each.get("ports", [])]
    assert ports == [f"127.0.0.1:${{PORT:-4000}}:{image_environment()['PORT']}"]
    for name, service in OURS.items():
        assert set(service["environment"]) <= SETTINGS
        assert set(service["secrets"]) == set(COMPOSE["secrets"])
        wanted = "python manage.py prepare" if name == "prepare" else f"python manage.py run {name}"
        prepares = ["sh", "-c", f"python manage.py prepare && exec {wanted}"]
        assert service["command"] == (prepares if name == "web" else wanted.split())
    assert set(OURS) == {*PROCESSES, "prepare"}


def test_what_compose_sets_brings_it_up_with_its_admin_and_its_key(
    instances: Callable[..., Instance], tmp_path: Path
) -> None:
    """The environment as it stands there, but for where the servers are and where Compose would show the secrets."""
    site = tmp_path / "site"
    (site / "deploy").mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "secrets.sh", site / "deploy")
    for _ in range(2):
        said = subprocess.run([site / "deploy" / "secrets.sh"], capture_output=True, text=True, check=True).stdout
    secrets = {path.name: path.read_text().strip() for path in (site / "secrets").iterdir()}
    assert set(secrets) == set(COMPOSE["secrets"])
    assert "secrets/admin_password" in said
    assert not any(secret in said for secret in secrets.values())

    servers = instances()  # stands for the services postgres and redis
    port = re.search(r"127\.0\.0\.1:(\d+)", servers.servers.jdbc_url)
    assert port
    with servers.connect() as connection:
        connection.execute("CREATE DATABASE compose")
        connection.execute(f"ALTER ROLE topics PASSWORD '{secrets['postgres_password']}'")
    given = {**image_environment(), **OURS["web"]["environment"]}
    given = {name: re.sub(r"\$\{\w+:-(.*?)\}$", r"\1", value) for name, value in given.items()}
    given |= {name: value.replace("/run/secrets", str(site / "secrets")) for name, value in given.items()}
    given |= {
        "DATABASE_URL": given["DATABASE_URL"].replace("@postgres/topics", f"@127.0.0.1:{port[1]}/compose"),
        "REDIS_URL": servers.servers.redis_url,
        "PATH": os.environ["PATH"],
        "TOPICS_DATA": str(tmp_path / "web"),
    }
    # Two hosts at once: one prepares the database, the other waits, and finds it done.
    argv = [sys.executable, str(ROOT / "manage.py"), "prepare"]
    both = [subprocess.Popen(argv, env=given, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=2 * DEADLINE)[0] for process in both]
    # The role of the service postgres is a superuser, and can revoke the analysts' locks. The role of this stand-in is not.
    assert [text.splitlines()[-1] for text in said] == ["the database is ready."] * 2
    assert all("run `manage.py prepare` once as a superuser" in text for text in said)

    command = [word.replace("python manage.py", " ".join(argv[:2])) for word in OURS["web"]["command"]]
    web = Instance(tmp_path / "web", free_port(), {**given, "WEB_WORKERS": "1"}, command=command)
    web.settings["PORT"] = str(web.port)
    web.run()
    try:
        until(web.is_ready, "the web server")
        from tests.api.clients import HttpClient
        from tests.project.signing_in import log_in

        assert HttpClient(web.port).get("/v0/topics").status == 401
        key = {"Authorization": f"Bearer {secrets['api_keys'].partition(':')[0]}"}
        assert HttpClient(web.port).put("/v0/topics/orders", {}, **key).status == 201
        assert log_in(web, secrets["admin_password"]).status == 302

        # After a reboot, Docker starts the service `web` alone.
        api = HttpClient(web.port)
        assert api.put("/v0/topics/now", {"durability": "ephemeral"}, **key).status == 201
        assert api.post("/v0/topics/now", {"records": [{"data": 1}]}, **key).status == 200
        assert web.stop() == 0
        web.run()
        until(web.is_ready, "the web server")
        read = api.post("/v0/topics/now/diff", {}, **key).json
        assert (read["records"], read["tombstone"]["reason"]) == ([], "restart")
    finally:
        web.kill()
    with psycopg.connect(given["DATABASE_URL"], password=secrets["postgres_password"]) as connection:
        assert connection.execute("SELECT username FROM auth_user WHERE is_superuser").fetchall() == [("admin",)]


@pytest.mark.parametrize("manifest", KUBERNETES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_kubernetes_takes_the_manifests(manifest: dict[str, Any]) -> None:
    assert refused_of(manifest) == []


def test_kubernetes_would_refuse_what_is_misspelt_missing_or_of_another_type() -> None:
    right = next(each for each in KUBERNETES if each["kind"] == "Deployment")
    misspelt, missing, other = (copy.deepcopy(right) for _ in range(3))
    misspelt["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    del missing["spec"]["selector"]
    other["spec"]["replicas"] = "two"
    assert [refused_of(each) for each in (misspelt, missing, other)] == [
        ["spec.template.spec.containers.0"],
        ["spec"],
        ["spec.replicas"],
    ]


def refused_of(manifest: dict[str, Any]) -> list[str]:
    """Where in a manifest Kubernetes finds something wrong."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = "-".join(filter(None, (manifest["kind"].lower(), group.partition(".")[0], version)))
    validator = Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{kind}"})
    return [".".join(map(str, error.path)) for error in validator.iter_errors(manifest)]


def test_the_manifests_say_what_the_project_is() -> None:
    (settings,) = (each["data"] for each in KUBERNETES if each["kind"] == "ConfigMap")
    (service,) = (each["spec"] for each in KUBERNETES if each["kind"] == "Service")
    assert set(settings) <= SETTINGS
    files = {Path(value).name for name, value in settings.items() if name.endswith("_FILE")}
    assert files == set(
        re.search(r"# (secret_key, .*)", (ROOT / "deploy" / "kubernetes.yaml").read_text())[1].split(", ")
    )  # type: ignore[index]
    assert set(PODS) == {f"topics-{process}" for process in PROCESSES}
    for name, pod in PODS.items():
        (main,), (prepare,) = pod["containers"], pod["initContainers"]
        assert main["command"] == ["python", "manage.py", "run", name.removeprefix("topics-")]
        assert prepare["command"] == ["python", "manage.py", "prepare"]
        for container in (main, prepare):
            mounted = {each["mountPath"] for each in container["volumeMounts"]}
            assert mounted == {"/run/secrets/topics", image_environment()["TOPICS_DATA"], "/tmp"}
            assert container["securityContext"]["readOnlyRootFilesystem"]
        assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == image("USER")[0]
    (web,) = PODS["topics-web"]["containers"]
    assert web["ports"] == [{"name": "http", "containerPort": int(image_environment()["PORT"])}]
    assert service["ports"][0]["targetPort"] == "http"


def test_the_ingress_lets_large_bodies_and_quiet_streams_pass() -> None:
    """The defaults of ingress-nginx refuse a body above 1 MiB, and cut off a stream that is quiet for 60 seconds."""
    (ingress,) = (each["metadata"]["annotations"] for each in KUBERNETES if each["kind"] == "Ingress")
    set_to = {name.removeprefix("nginx.ingress.kubernetes.io/"): value for name, value in ingress.items()}
    assert set_to["proxy-body-size"] == f"{int(environment.SETTINGS['TOPICS_MAX_BODY_BYTES'].default) >> 20}m"
    assert set_to["proxy-buffering"] == "off"
    assert int(set_to["proxy-read-timeout"]) > MOST_HEARTBEAT_SECONDS


def test_the_probes_of_the_web_server_answer(server: Instance) -> None:
    (web,) = PODS["topics-web"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server.get(web[probe]["httpGet"]["path"])[0] == 200


@pytest.mark.parametrize("process", ["worker", "push", "beat"])
def test_the_probes_of_workers_look_at_a_file(server: Instance, process: str, tmp_path: Path) -> None:
    """They ask nothing through Redis, so they restart nothing while it is away."""
    (container,) = PODS[f"topics-{process}"]["containers"]
    command = container["livenessProbe"]["exec"]["command"]
    # Compose has the same; it wants its dollars doubled.
    assert OURS[process]["healthcheck"]["test"][1].replace("$$", "$") == command[2].replace('"', "")
    inherited = {name: value for name, value in os.environ.items() if name != "TOPICS_SUPERVISED"}
    given = {**inherited, **joining(server), "TOPICS_DATA": str(tmp_path)}

    def healthy() -> bool:
        return subprocess.run(command, env=given, capture_output=True, check=False).returncode == 0

    assert not healthy()
    argv = [sys.executable, str(ROOT / "manage.py"), "run", process]
    with (tmp_path / "log").open("wb") as log, child_process(argv, env=given, stdout=log, stderr=log) as run:
        until(healthy, f"a sign of life of {process}")
        run.kill()
        run.wait()
        file = tmp_path / "alive" / process
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 61))
        assert not healthy()


def test_systemd_takes_the_units_and_they_name_what_there_is(tmp_path: Path) -> None:
    python = "/opt/topics/.venv/bin/python manage.py "
    for path in UNITS.glob("topics*"):
        text = path.read_text()
        assert (
            set(re.findall(r"\b([A-Z_]+)=", "\n".join(re.findall(r"^(?:Environment=.*|[A-Z_]+=.*)$", text, re.M))))
            <= SETTINGS
        )
        (tmp_path / path.name).write_text(text.replace(python, f"{sys.executable} {ROOT}/manage.py "))
    target = (UNITS / "topics.target").read_text()
    assert set(re.findall(r"topics@(\w+)\.service", target)) == set(PROCESSES)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TRIED: there is no systemd-analyze here (apt-get install systemd)")
    units = [str(tmp_path / name) for name in ("topics.target", "topics-prepare.service")]
    units += [f"{tmp_path}/topics@{process}.service" for process in PROCESSES]
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
