"""Logins to the admin that fail too often are refused for a while, by address."""

from collections.abc import Callable

import pytest

from tests.instances import Instance, until
from tests.project.signing_in import log_in

pytestmark = pytest.mark.deep(33)


LIMIT = {"TOPICS_LOGIN_FAILURES": "3", "TOPICS_LOGIN_LOCK_SECONDS": "5"}
BEHIND_A_PROXY = {
    **LIMIT,
    "TOPICS_TLS_PROXY": "1",
    "ALLOWED_HOSTS": "127.0.0.1",
    "TOPICS_LOGIN_LOCK_SECONDS": "300",
}


def password(instance: Instance) -> str:
    return (instance.data / "admin-password").read_text().strip()


def test_it_works(server: Instance) -> None:
    page = log_in(server, password(server))
    assert (page.status, page.headers["location"]) == (302, "/admin/")


def test_failures_lock_an_address_out_until_it_has_waited(instances: Callable[..., Instance]) -> None:
    instance = instances(**LIMIT)
    assert [log_in(instance, "guess").status for _ in range(4)] == [200, 200, 429, 429]
    refused = log_in(instance, password(instance))
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert "Too many logins from your address have failed. Try again in 1 minute." in refused.body
    until(lambda: log_in(instance, password(instance)).status == 302, "the address to be let in again")


def test_the_log_has_the_address_of_a_failed_login(instances: Callable[..., Instance]) -> None:
    instance = instances()
    log_in(instance, "guess")
    lines = (instance.data / "logs" / "web.log").read_text().splitlines()
    assert [line.partition("logins ")[2] for line in lines if "login" in line] == [
        "A login to the admin failed, from 127.0.0.1"
    ]


def test_retry_after_is_the_time_that_is_left(instances: Callable[..., Instance]) -> None:
    instance = instances(**{**LIMIT, "TOPICS_LOGIN_LOCK_SECONDS": "300"})
    for _ in range(3):
        log_in(instance, "guess")
    with instance.connect() as database:
        database.execute("UPDATE axes_accessattempt SET attempt_time = attempt_time - interval '200 s'")
    refused = log_in(instance, "guess")
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 100
    assert "Try again in 2 minutes." in refused.body


def test_headers_of_a_proxy_that_nobody_told_of_do_not_count(instances: Callable[..., Instance]) -> None:
    instance = instances(**LIMIT)
    pages = [log_in(instance, "guess", X_Forwarded_For=f"10.0.0.{n}") for n in range(3)]
    assert [page.status for page in pages] == [200, 200, 429]


def test_behind_a_proxy_the_address_is_the_one_that_it_appended(instances: Callable[..., Instance]) -> None:
    instance = instances(**BEHIND_A_PROXY)

    def guess(chain: str) -> int:
        proxy = {"X_Forwarded_Proto": "https", "X_Forwarded_For": chain}
        return log_in(instance, "guess", Referer=f"https://127.0.0.1:{instance.port}/", **proxy).status

    assert [guess(f"192.0.2.{n}, 198.51.100.7") for n in range(4)] == [200, 200, 429, 429]
    assert guess("198.51.100.7, 198.51.100.8") == 200
    # An address of IPv6 is one of a network that belongs to one customer.
    assert [guess(f"2001:db8:1:2::{n}") for n in range(4)] == [200, 200, 429, 429]
    assert guess("2001:db8:1:3::1") == 200
