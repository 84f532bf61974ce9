"""Shifts seqs in answers, records, errors and frames. With `by` = 100, a server's seq 5 is the client's 105.

`names.py` does the same for names.
"""

from __future__ import annotations

from typing import Any

import msgspec

from base.errors import rendered
from gateway.api import Response
from gateway.rewrite.edits import decoded
from gateway.rewrite.edits import encoded as raw
from gateway.rewrite.frames import Frame
from gateway.rewrite.names import Raws, decoded_id, encoded_id

# Fields of answers, errors, tombstones and events that contain one seq.
SEQS = (
    "$seq",
    "seq",
    "from_seq",
    "to_seq",
    "first_seq",
    "last_seq",
    "head_seq",
    "earliest_seq",
    "next_seq",
    "next_from_seq",
    "scanned_to",
    "gap_from",
    "gap_to",
    "lost_from",
    "expected_head",
    "expected_seq",
    "before_seq",
)
INSIDE = ("tombstone", "detail", "last")  # fields with an object that contains seqs
LISTED = ("records", "cursors")  # fields with a list of objects that contain seqs


def shifted(body: Raws, by: int) -> Raws:
    """Returns the object with `by` added to its seqs, also nested seqs. All other fields keep their bytes."""
    if not by:
        return body
    found = dict(body)
    for key in SEQS:
        if key in found and (seq := decoded(found[key], int)) is not None:
            found[key] = raw(seq + by)
    for key in INSIDE:
        if (inner := decoded(found.get(key), Raws)) is not None:
            found[key] = raw(shifted(inner, by))
    for key in LISTED:
        if key in found:
            found[key] = raw([shifted(each, by) for each in msgspec.json.decode(found[key], type=list[Raws])])
    if (seqs := decoded(found.get("seqs"), list[int])) is not None:
        found["seqs"] = raw([seq + by for seq in seqs])
    if (error := decoded(found.get("error"), Raws)) is not None:
        found["error"] = raw(_shifted_error(error, by))
    return found


def _shifted_error(error: Raws, by: int) -> Raws:
    """Returns the error with shifted seqs in its detail, from which its message is rendered again (base/errors.py)."""
    found = shifted(error, by)
    code, detail = decoded(found.get("code"), str), decoded(found.get("detail"), dict[str, Any])
    if detail is not None and (message := rendered(code or "", detail)) is not None:
        found["message"] = raw(message)
    return found


async def shifted_response(response: Response, by: int) -> Response:
    """Returns the answer with `by` added to its seqs. An answer without a JSON object is unchanged."""
    if not by or not response.is_json:
        return response
    try:
        body = await response.decoded(Raws)
    except msgspec.MsgspecError:
        return response
    return response.replace(body=msgspec.json.encode(shifted(body, by)))


def shift_frame(frame: Frame, by: int) -> None:
    """Adds `by` to the seqs of a stream's event, in its data and in its id."""
    if not by:
        return
    if frame.data is not None and frame.data.startswith(b"{") and frame.event != b"error":
        frame.data = msgspec.json.encode(shifted(msgspec.json.decode(frame.data, type=Raws), by))
    if not frame.id or not frame.has_position:
        return
    topic, colon, seq = frame.id.rpartition(b":")
    if colon:
        frame.id = topic + colon + b"%d" % (int(seq) + by)
    else:
        position = decoded_id(frame.id.decode("latin-1"))
        frame.id = encoded_id({topic: seq + by for topic, seq in position.items()})
