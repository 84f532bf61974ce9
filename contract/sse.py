"""The bytes of server-sent events (WHATWG HTML, section 9.2), for each stream of a server and of a gateway.

The id stands behind the data, because widely used clients take an id as soon as they have read its line. If the connection is cut
within the data, such a client would continue behind an event that it never got.
"""

from __future__ import annotations


def event(name: str, data: bytes, id: bytes = b"") -> bytes:
    """Returns an event with data in JSON. An empty `id` leaves the client's last id as it is."""
    return b"event: %b\ndata: %b\n%b\n" % (name.encode(), in_lines(data), id_line(id))


def id_line(id: bytes) -> bytes:
    return b"id: %b\n" % id if id else b""


def identified(frame: bytes, line: bytes) -> bytes:
    """Returns an event with an `id:` line, or as it is if the line is empty."""
    return b"".join((memoryview(frame)[:-1], line, b"\n")) if line else frame


def in_lines(json: bytes) -> bytes:
    """Returns JSON as it stands behind `data: `. JSON may have line breaks between its tokens. Each line becomes a `data:` line,
    and the client joins these lines again."""
    if b"\n" not in json and b"\r" not in json:
        return json
    return json.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")


def of_lines(lines: bytes) -> bytes:
    """Returns the JSON of in_lines()."""
    return lines.replace(b"\ndata: ", b"\n")
