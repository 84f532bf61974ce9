"""CloudEvents 1.0 over HTTP: an append of events as an append of records, and records as events (docs/guides/cloudevents.md).

The server and the gateway translate here, so filters and routers of a gateway see an append of events as any other append. A
record keeps the attributes of its event in `meta`, and comes out as an equal event.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from base.depth import too_deep
from base.errors import BatchTooLarge, InvalidRequest, UnsupportedMediaType
from base.surrogates import lone_surrogate

EVENT, EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
JSON = "application/json"
# The media types of reads, and of one record. A read answers a batch to both.
OF_READS, OF_RECORD = (JSON, EVENTS, EVENT), (JSON, EVENT)
VERSION = "1.0"
ATTRIBUTES = "cloudevents"  # the key of `meta` that has the attributes of the record's event
IN_META = f'"{ATTRIBUTES}"'.encode()
# The member of the attributes that says in what form the event has its data, if not as `data`. It cannot be an attribute.
FORM, NO_DATA, BINARY = "data", "none", "base64"
MOST_EVENTS, MOST_MEMBERS = 10_000, 64  # events of a batch, and members of an event
RECORD = "topics.record"  # the type of an event that was appended as a plain record
REST = b"topics-answer"  # the header with the members of an answer beside its records
REQUIRED = frozenset(("specversion", "id", "source", "type"))
PLAIN = JSON.encode()
CONTENT_TYPE, SPEC_VERSION, PREFIX = b"content-type", b"ce-specversion", b"ce-"
MEDIA = b"application/cloudevents"
NAME = re.compile(r"[a-z0-9]+")
URI = re.compile(r"[^\s\"<>\\^`{|}]+")
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\"<>\\^`{|}]*")
MEDIA_TYPE = re.compile(r"[!#$&^_.+\w-]+/[!#$&^_.+\w-]+\s*(;.*)?", re.ASCII)
TIME = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
OTHER_CHARSET = re.compile(r";\s*charset=\"?(?!utf-8|us-ascii)", re.IGNORECASE)
NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")  # characters that no attribute can have
QUOTED = re.compile(r"\\(.)")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Members = dict[str, msgspec.Raw]
Attributes = dict[str, Any]
MEMBERS, RAW = msgspec.json.Decoder(Members), msgspec.json.Decoder(msgspec.Raw)
RAWS, VALUES = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[Any])
OBJECT, RECORDS = msgspec.json.Decoder(Attributes), msgspec.json.Decoder(list[Members])


# -- Events become records -------------------------------------------------------------------------------------------------


def is_sent(headers: Mapping[bytes, bytes]) -> bool:
    """Returns whether the body of an append is an event or a batch of events. `headers`: names in lower case."""
    media = headers.get(CONTENT_TYPE, PLAIN)
    return SPEC_VERSION in headers or (media != PLAIN and media[: len(MEDIA)].lower() == MEDIA)


def as_append(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Returns the JSON of the append of the records of these events.

    Raises InvalidRequest, BatchTooLarge or UnsupportedMediaType. Each record has the key of its event. So an event is appended
    once, however it is sent again.
    """
    media = headers.get(CONTENT_TYPE, b"").partition(b";")[0].strip().lower().decode("latin-1")
    if media == EVENT:
        events = [from_json(decoded(body, MEMBERS, "the event"))]
    elif media == EVENTS:
        events = batch(body)
    elif media.encode("latin-1").startswith(MEDIA):
        raise UnsupportedMediaType(f"unsupported Content-Type: send events as {EVENT} or {EVENTS}")
    else:
        events = [from_headers(headers, media, body)]
    keys = [key(attributes) for attributes, _ in events]
    check_distinct(keys)
    return msgspec.json.encode({"records": [record(*each) for each in events], "idempotency_keys": keys})


def without_event(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Returns the headers of the append that as_append() returned."""
    kept = [each for each in headers if each[0] != CONTENT_TYPE and not each[0].startswith(PREFIX)]
    return [*kept, (CONTENT_TYPE, PLAIN)]


def batch(body: bytes) -> list[tuple[Attributes, msgspec.Raw]]:
    found: list[msgspec.Raw] = decoded(body, RAWS, "the batch")
    if len(found) > MOST_EVENTS:  # before each of them costs time
        raise BatchTooLarge(f"{len(found)} events in one batch: expected at most {MOST_EVENTS}", max=MOST_EVENTS)
    events = []
    for index, event in enumerate(found):
        try:
            events.append(from_json(decoded(event, MEMBERS, "the event")))
        except InvalidRequest as error:
            error.detail["index"] = index
            raise
    return events


def key(attributes: Attributes) -> str:
    """Returns the idempotency key of an event: a digest of its source and its id."""
    pair = msgspec.json.encode([attributes["source"], attributes["id"]])
    return f"ce:{blake2b(pair, digest_size=16).hexdigest()}"


def check_distinct(keys: Sequence[str]) -> None:
    places: dict[str, int] = {}
    for place, each in enumerate(keys):
        if (first := places.setdefault(each, place)) != place:
            raise InvalidRequest(
                f"events[{first}] and events[{place}] have the same source and id: send one of them", index=place
            )


def record(attributes: Attributes, data: msgspec.Raw) -> dict[str, Any]:
    """Returns the record of an event: its subject is the tag. The order of attributes makes no difference."""
    told = {"tag": attributes["subject"]} if "subject" in attributes else {}
    return {"data": data, **told, "meta": {ATTRIBUTES: dict(sorted(attributes.items()))}}


def from_json(event: Members) -> tuple[Attributes, msgspec.Raw]:
    """Returns the attributes and the data of an event in JSON. A binary event has the text of its `data_base64` as data."""
    if len(event) > MOST_MEMBERS:
        raise InvalidRequest(f"the event has {len(event)} members: expected at most {MOST_MEMBERS}")
    text, binary = event.pop("data", None), event.pop("data_base64", None)
    # One call for all attributes: a batch has many events.
    values = decoded(b"[" + b",".join(map(bytes, event.values())) + b"]", VALUES, "the event")
    # null: the attribute is not set.
    attributes = {name: value for name, value in zip(event, values, strict=True) if value is not None}
    check(attributes)
    if binary is None:
        return (attributes, text) if text is not None else (attributes | {FORM: NO_DATA}, raw(None))
    if text is not None:
        raise InvalidRequest("the event has data and data_base64: send one", field="data_base64")
    if not is_base64(binary):
        raise InvalidRequest("invalid data_base64: expected a string in Base64", field="data_base64")
    return attributes | {FORM: BINARY}, binary


def from_headers(headers: Mapping[bytes, bytes], media: str, body: bytes) -> tuple[Attributes, msgspec.Raw]:
    """Returns the attributes and the data of an event in the binary mode, whose attributes are headers. `media`: of the body."""
    attributes: Attributes = {
        name[len(PREFIX) :].decode("latin-1"): header_value(name, value)
        for name, value in headers.items()
        if name.startswith(PREFIX)
    }
    if "datacontenttype" in attributes:
        raise InvalidRequest("invalid header ce-datacontenttype: send Content-Type", field="datacontenttype")
    if media:
        attributes["datacontenttype"] = headers[CONTENT_TYPE].decode("latin-1").strip()
    check(attributes)
    if not body:
        return attributes | {FORM: NO_DATA}, raw(None)
    if not media or is_json(media):  # like an event in JSON, one without a media type has JSON
        return attributes, decoded(body, RAW, "the data")
    if media.startswith("text/") and not OTHER_CHARSET.search(attributes["datacontenttype"]):
        with suppress(UnicodeDecodeError):
            return attributes, raw(body.decode())
    return attributes | {FORM: BINARY}, raw(base64.b64encode(body).decode())


def header_value(name: bytes, value: bytes) -> str:
    """Returns the value of an attribute's header. Characters beyond ASCII are percent-encoded UTF-8 there."""
    text = value.decode("latin-1").strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = QUOTED.sub(r"\1", text[1:-1])
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"invalid header {name.decode('latin-1')}: expected percent-encoded UTF-8") from error


def is_json(media: str) -> bool:
    return media in (JSON, "text/json") or media.endswith("+json")


def is_base64(value: msgspec.Raw) -> bool:
    try:
        base64.b64decode(msgspec.json.decode(value, type=str), validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        return False
    return True


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def decoded(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any], what: str) -> Any:
    try:
        if isinstance(body, bytes) and not body.isascii():
            body.decode()
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not UTF-8 (byte {error.start})") from error
    except msgspec.ValidationError as error:
        expected = "an object" if decoder is MEMBERS else "an array of events"
        raise InvalidRequest(f"invalid JSON of {what}: expected {expected}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(lone_surrogate(bytes(body)) or f"invalid JSON of {what}: {error}") from error
    except RecursionError as error:
        raise too_deep(what) from error


# -- The attributes of an event --------------------------------------------------------------------------------------------


def check(attributes: Attributes) -> None:
    """Raises InvalidRequest, with the attribute as `detail.field`, if no event has these attributes."""
    if not attributes.keys() >= REQUIRED:
        name = next(each for each in WANTED if each in REQUIRED - attributes.keys())
        raise InvalidRequest(f"missing attribute {name!r} of the event", field=name)
    for name, value in attributes.items():
        wanted = WANTED.get(name)
        if wanted is None:
            if name == FORM or not NAME.fullmatch(name):
                raise InvalidRequest(
                    f"invalid attribute {name[:80]!r}: expected a name of a-z and 0-9", field=name[:80]
                )
            wanted = wanted_extension
        if expected := wanted(value):
            raise InvalidRequest(f"invalid {name}: expected {expected}", field=name)


def is_text(value: str) -> bool:
    return value.isprintable() or not NO_TEXT.search(value)


def wanted_text(value: object) -> str:
    """Returns the expected value in words, or an empty text if the value is valid. So do the next functions."""
    return (
        ""
        if isinstance(value, str) and value and is_text(value)
        else "a string of at least 1 character, without control characters"
    )


def wanted_extension(value: object) -> str:
    if isinstance(value, str):
        return "" if is_text(value) else "a string without control characters"
    is_small = isinstance(value, int) and -(2**31) <= value < 2**31  # true and false, too
    return "" if is_small else "a string, true, false, or a whole number of 32 bits"


def wanted_version(value: object) -> str:
    return "" if value == VERSION else f"{VERSION!r}, the version that this server knows"


def wanted_reference(value: object) -> str:
    return "" if isinstance(value, str) and URI.fullmatch(value) and is_text(value) else "a URI reference"


def wanted_uri(value: object) -> str:
    return "" if isinstance(value, str) and ABSOLUTE.fullmatch(value) and is_text(value) else "an absolute URI"


def wanted_media(value: object) -> str:
    is_valid = isinstance(value, str) and MEDIA_TYPE.fullmatch(value) and is_text(value)
    return "" if is_valid else "a media type"


def wanted_time(value: object) -> str:
    return "" if isinstance(value, str) and TIME.fullmatch(value) else "a time of RFC 3339: 2031-05-17T12:00:00Z"


WANTED = {
    "specversion": wanted_version,
    "id": wanted_text,
    "source": wanted_reference,
    "type": wanted_text,
    "subject": wanted_text,
    "time": wanted_time,
    "datacontenttype": wanted_media,
    "dataschema": wanted_uri,
}


# -- Records become events -------------------------------------------------------------------------------------------------


def as_events(topic: str, answer: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Returns the records of an answer as events, with the headers of this answer.

    `answer`: the JSON of a read, which becomes a batch, or of one record. The header `Topics-Answer` has its other members.
    """
    members = MEMBERS.decode(answer)
    found = members.pop("records", None)
    if found is None:
        media, shown = EVENT, event(topic, members)
        rest = {name: value for name, value in members.items() if name not in RECORD_MEMBERS}
    else:
        media, rest = EVENTS, members
        shown = batch_of(topic, RECORDS.decode(found))
    headers = [(CONTENT_TYPE, media.encode()), (REST, msgspec.json.encode(rest))]
    return shown, headers


RECORD_MEMBERS = ("$seq", "$ts", "$node", "$tag", "meta", "data")


def batch_of(topic: str, records: Iterable[Members]) -> bytes:
    return b"[" + b",".join([event(topic, each) for each in records]) + b"]"


def event(topic: str, of: Members) -> bytes:
    """Returns the event of a record: the event that was appended, or an event about a plain record."""
    data = of["data"]
    attributes = attributes_of(of.get("meta"))
    form = attributes.pop(FORM, None)
    if form == BINARY and is_base64(data):
        return msgspec.json.encode({**attributes, "data_base64": data})
    if form == NO_DATA and bytes(data) == b"null":
        return msgspec.json.encode(attributes)
    if form is not None or not attributes:
        attributes = plain(topic, of)
    return msgspec.json.encode({**attributes, "data": data})


def attributes_of(meta: msgspec.Raw | None) -> Attributes:
    """Returns the attributes of the event in a record's meta. A client can write this meta without an event: then it is empty."""
    if meta is None or IN_META not in bytes(meta):
        return {}
    try:
        found: Attributes = OBJECT.decode(MEMBERS.decode(meta)[ATTRIBUTES])
        check({name: value for name, value in found.items() if name != FORM})
    except (msgspec.MsgspecError, KeyError, InvalidRequest):
        return {}
    return found


def plain(topic: str, of: Members) -> Attributes:
    """Returns the attributes of the event about a plain record. Its `meta` is left out, because attributes are no objects."""
    found = {"specversion": VERSION, "id": bytes(of["$seq"]).decode(), "source": f"/v0/topics/{topic}"}
    found |= {"type": RECORD, "datacontenttype": JSON}
    if "$tag" in of and not wanted_text(tag := msgspec.json.decode(of["$tag"], type=str)):
        found["subject"] = tag
    try:
        at = EPOCH + timedelta(milliseconds=msgspec.json.decode(of["$ts"], type=int))
    except OverflowError:  # a copy can have any time
        return found
    return found | {"time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
