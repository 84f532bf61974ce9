"""Checks where callbacks may lead: at each connection, and on the exact address that is connected to.

Each name is resolved once, here, and the connection goes to the resolved address. So a name server that gives the check and the
connection different addresses gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
DENIED = [ipaddress.ip_network(each) for each in settings.PUSH_CALLBACK_DENY]


def networks(*written: str) -> list[ipaddress.IPv6Network]:
    return [ipaddress.IPv6Network(each) for each in written]


# IPv6 networks whose addresses contain an IPv4 address: IPv4-compatible, IPv4-mapped, IPv4-translated, and both NAT64 prefixes.
LAST_32_BITS = networks("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
# A network operator chooses the length of the prefix within 64:ff9b:1::/48. The length decides which bytes contain the IPv4
# address (RFC 6052).
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
LOCAL_PLACES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # before the IPv4 address, after any prefix
RESOLVERS = ThreadPoolExecutor(
    16, "resolver"
)  # a name server that hangs holds a thread, and no other thread of the process
OWN = ipaddress.IPv6Address("::1")


class AddressRefused(Exception):
    """The callback leads to an address that callbacks must not reach."""


def meant(address: Address) -> set[Address]:
    """Returns the address itself, and each IPv4 address that the address may contain."""
    if isinstance(address, ipaddress.IPv4Address) or address == OWN:
        return {address}
    parts = address.packed
    found: set[Address] = {address}
    if any(address in network for network in LAST_32_BITS) or parts[8:12] in ISATAP:
        found.add(ipaddress.IPv4Address(parts[12:]))
    if address in LOCAL_NAT64:
        # 0.0.0.0/8 is left out: with a longer prefix these bytes are zero, and no gateway leads to such addresses.
        found |= {
            ipaddress.IPv4Address(bytes(parts[at] for at in places)) for places in LOCAL_PLACES if parts[places[0]]
        }
    if address.sixtofour is not None:
        found.add(address.sixtofour)
    if address.teredo is not None:
        found |= set(address.teredo)
    return found


def check(text: str, *, loopback_only: bool) -> None:
    """Raises AddressRefused if callbacks must not reach this address."""
    given = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for address in meant(given) for network in DENIED):
        raise AddressRefused(f"{text} is in PUSH_CALLBACK_DENY")
    mapped = given.ipv4_mapped if isinstance(given, ipaddress.IPv6Address) else None
    if loopback_only and not (mapped or given).is_loopback:
        raise AddressRefused(f"{text} is not this machine: callbacks elsewhere need https://")


async def open_checked(host: str, port: int, *, loopback_only: bool) -> socket.socket:
    """Returns a connection to the first address of the host that accepts one. Raises AddressRefused or OSError.

    The caller limits the time.
    """
    loop = asyncio.get_running_loop()
    trouble: OSError = OSError(f"{host} has no address")
    try:
        found = await loop.run_in_executor(RESOLVERS, socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    except UnicodeError:  # a label is empty, or longer than 63 characters: no name server is asked
        raise OSError(f"{host} is not a valid host name") from None
    for family, kind, protocol, _, address in found:
        check(str(address[0]), loopback_only=loopback_only)
        opened = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(opened, address)
            return opened
        except OSError as error:
            opened.close()
            # asyncio's message has the address, and not the reason.
            trouble = OSError(error.errno, os.strerror(error.errno)) if error.errno else error
        except BaseException:  # the time is over
            opened.close()
            raise
    raise trouble
