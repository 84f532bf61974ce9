"""Where callbacks may lead: looked at on the very address that is connected to, at each connection.

A name is looked up once, here, and what it stands for is what we connect to: a name server that tells the check one thing and
the connection another gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from django.conf import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
DENIED = [ipaddress.ip_network(each) for each in settings.PUSH_CALLBACK_DENY]
NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(Exception):
    """The callback leads to where nobody may have us call."""


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def check(text: str, *, loopback_only: bool) -> None:
    """Raises AddressRefused."""
    given = ipaddress.ip_address(text.partition("%")[0])
    for address in {given, plain(given)}:
        if any(address in network for network in DENIED):
            raise AddressRefused(f"{text} is in PUSH_CALLBACK_DENY")
    if loopback_only and not plain(given).is_loopback:
        raise AddressRefused(f"{text} is not this machine, and http:// is for callbacks to this machine alone")


def connect(
    host: str, port: int, timeout: float | None, options: Sequence[tuple[int, int, int | bytes]], *, loopback_only: bool
) -> socket.socket:
    """A connection to the first address of the host that accepts one. Raises AddressRefused or OSError."""
    trouble: OSError = OSError(f"{host} has no address")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, 0, socket.SOCK_STREAM)
    except UnicodeError:  # a part of it is empty, or longer than 63 characters: no name server is asked
        raise OSError(f"{host} is no name of a host") from None
    for family, kind, protocol, _, address in found:
        check(str(address[0]), loopback_only=loopback_only)
        opened = socket.socket(family, kind, protocol)
        try:
            for option in options:
                opened.setsockopt(*option)
            opened.settimeout(timeout)
            opened.connect(address)
            return opened
        except OSError as error:
            opened.close()
            trouble = error
    raise trouble
