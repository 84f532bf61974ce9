"""Dead letters on the page of their queue: a counted preview, and buttons that send the counted letters back or drop them."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.http import HttpRequest

from base.bounds import LETTER_DELIVERIES, LETTER_ERROR, LETTER_SEQ
from base.clock import now_ms
from base.errors import TopicNotFound, TopicsError
from base.units import counted
from console.objects.topic import found
from console.site import whole
from queues.letters import Choice, Letter, Letters, choose
from queues.redrive import redrive_chosen
from store.script import run
from topics import audit, wake
from topics.delete.records import delete_seqs
from wire.access.keys import OPEN

MOST_SHOWN = 20
PERMISSIONS = {"redrive": "console.append_record", "drop": "topics.delete_topic"}


class LetterRow(NamedTuple):
    """A dead letter: its seq and time in the dead letter topic, its seq in the queue, deliveries, and the last error."""

    seq: int
    ts: int | None
    src_seq: int | None
    deliveries: int | None
    error: str | None


def preview(request: HttpRequest, name: str, dead: str | None, now: int) -> dict[str, Any]:
    """Returns the context of the section: dead letters of the queue `name`, and how many a redrive would move.

    `after` of the address: the last examined seq of the page before.
    """
    if dead is None:
        return {}
    after = whole(request.GET.get("after", "")) or 0
    try:
        chosen = run(choose(dead, Choice(queue=name, from_seq=after), now))
    except TopicNotFound:  # no job was moved so far
        return {}
    except TopicsError as error:
        return {"trouble": error.message}
    context = {
        "after": after,
        "found": len(chosen.letters),
        "letters": [row(each) for each in chosen.letters[:MOST_SHOWN]],
        "through": chosen.next_from_seq,
        "following": not chosen.caught_up,
    }
    try:
        would = run(redrive_chosen(dead, chosen, OPEN, now, is_dry=True))
    except TopicsError as error:  # for example on a full disk, where a drop still works
        return {**context, "trouble": error.message}
    return {**context, "movable": sum(would.moved.values())}


def row(letter: Letter) -> LetterRow:
    src_seq, deliveries = letter.field(LETTER_SEQ, int), letter.field(LETTER_DELIVERIES, int)
    return LetterRow(letter.seq, letter.ts, src_seq, deliveries, letter.field(LETTER_ERROR, str))


def handle(request: HttpRequest, name: str, dead: str | None) -> None:
    """Redrives or drops the counted letters, and tells the user the outcome. Raises BadRequest or PermissionDenied."""
    action, through = request.POST.get("action", ""), whole(request.POST.get("through", ""))
    if dead is None or through is None or action not in PERMISSIONS:
        raise BadRequest("the form is incomplete: open the page again")
    if not request.user.has_perm(PERMISSIONS[action]):
        raise PermissionDenied
    try:
        with transaction.atomic():
            chosen = counted_letters(name, dead, whole(request.GET.get("after", "")) or 0, through)
            (send_back if action == "redrive" else drop)(request, name, dead, chosen)
    except TopicsError as error:
        messages.error(request, error.message)


def counted_letters(name: str, dead: str, after: int, through: int) -> Letters:
    """Returns the letters of the count on the page. Letters that came or went since are left out."""
    chosen = run(choose(dead, Choice(queue=name, from_seq=after), now_ms()))
    return chosen._replace(letters=[each for each in chosen.letters if each.seq <= through])


def send_back(request: HttpRequest, name: str, dead: str, chosen: Letters) -> None:
    """Moves the letters to the queue. The audit log keeps their number."""
    done = run(redrive_chosen(dead, chosen, OPEN, now_ms()))
    moved = sum(done.moved.values())
    run(audit.note("redrive", "records", dead, after={"queue": name, "moved": moved}))
    transaction.on_commit(lambda: announce(name))  # a worker that the redrive woke may have looked before our commit
    messages.success(request, f"Sent {counted(moved, 'dead letter')} back to the queue.")
    for each in done.skipped:
        messages.error(request, f"{counted(len(each.seqs), 'dead letter')} cannot go back: {each.error.message}")


def drop(request: HttpRequest, name: str, dead: str, chosen: Letters) -> None:
    """Deletes the letters. The audit log keeps their number."""
    done = run(delete_seqs(dead, [each.seq for each in chosen.letters], now_ms()))
    run(audit.note("delete", "records", dead, after={"queue": name, "deleted": done.deleted}))
    messages.success(request, f"Dropped {counted(done.deleted, 'dead letter')}.")


def announce(name: str) -> None:
    """Wakes the workers and readers of the queue."""
    state = found(name).state
    wake.announce(state.id, state.head_seq, routed=True)
