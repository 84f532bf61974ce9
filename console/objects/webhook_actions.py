"""Pages that pause, resume, test, replay, rotate and delete a webhook. Each says the effect first, and asks for confirmation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from base.clock import now_ms
from base.errors import Incompatible, TopicsError
from base.units import amount, counted, moment, sentence
from console.records.browse import TimeField
from console.site import Console, whole
from console.templatetags.console import webhook_url
from push.webhooks import deliveries, webhooks
from push.webhooks.config import DEAD
from push.webhooks.deliveries import MOST_REPLAYED, ReplayChoice
from push.webhooks.signing import key_of, new_secret
from push.webhooks.webhooks import Stored
from store.script import run
from wire.access.keys import OPEN

CHANGE, DELETE = "push.change_webhook", "push.delete_webhook"  # permissions


class Asked(NamedTuple):
    """The page of an action: its title, its effects in sentences, the text of its button, if any, and values to send back."""

    title: str
    effects: list[str]
    button: str | None
    is_dangerous: bool = False
    hidden: tuple[tuple[str, object], ...] = ()


class WebhookAction(NamedTuple):
    """`ask` describes the action. `act` does it, and returns what to tell the user, or a page that does."""

    permission: str
    ask: Callable[[Stored, HttpRequest], Asked]
    act: Callable[[Stored, HttpRequest, Console], str | HttpResponse]


def page(site: Console, request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Shows the effects of an action, and does it after the confirmation. Raises NotFound, Http404 or PermissionDenied."""
    if action not in ACTIONS:
        raise Http404(f"unknown action {action!r}")
    webhook, wanted = run(webhooks.find(name)), ACTIONS[action]
    if not request.user.has_perm(wanted.permission):
        raise PermissionDenied
    if request.method == "POST":
        try:
            done = wanted.act(webhook, request, site)
        except TopicsError as error:
            messages.error(request, sentence(error.message))
        else:
            if isinstance(done, HttpResponse):
                return done
            messages.success(request, done)
        return HttpResponseRedirect(reverse("admin:console_list_webhooks") if action == "delete" else webhook_url(name))
    context = {"webhook": webhook, "name": name, "asked": wanted.ask(webhook, request), "action": action}
    return site.page(request, "console/webhook_action.html", title=name, **context)


def ask_pause(webhook: Stored, request: HttpRequest) -> Asked:
    return Asked(
        f"Pause {webhook.name}",
        [
            "Nothing is sent until you resume it. A call that is under way is waited for.",
            "Records wait in their topics.",
            "Records that a topic loses meanwhile, by a ttl or a cap, are never sent. The log says so.",
        ],
        "Pause the webhook",
    )


def ask_resume(webhook: Stored, request: HttpRequest) -> Asked:
    return Asked(
        f"Resume {webhook.name}",
        ["It continues where it stopped. A failing endpoint gets its next call at once."],
        "Resume the webhook",
    )


def set_paused(paused: bool) -> Callable[[Stored, HttpRequest, Console], str]:
    def act(webhook: Stored, request: HttpRequest, site: Console) -> str:
        reason = f"{request.user.get_username()} paused it in the console" if paused else None
        run(webhooks.set_paused(webhook.name, paused, reason, now_ms()))
        return f"{webhook.name} is {'paused' if paused else 'running again'}."

    return act


def ask_test(webhook: Stored, request: HttpRequest) -> Asked:
    return Asked(
        f"Test {webhook.name}",
        [
            f"Its endpoint gets a signed call with a record of the topic {deliveries.TEST_TOPIC}. The log shows the outcome."
        ],
        "Send a test",
    )


def test(webhook: Stored, request: HttpRequest, site: Console) -> str:
    run(deliveries.send_test(webhook.name))
    return "A test is sent. Its outcome appears below in a moment."


def choice(request: HttpRequest) -> ReplayChoice:
    """Returns which records the address asks for: those of a call (`topic`, `from`, `to`), or all given up `since` a time."""
    topic, first, last = (request.GET.get(each, "") for each in ("topic", "from", "to"))
    if not topic:
        return ReplayChoice(None, None, None, since(request), None, failed=True)
    return ReplayChoice(topic, whole(first), whole(last), None, None, failed=False)


def since(request: HttpRequest) -> int | None:
    """Returns the time of the address, or None without one. Raises BadRequest."""
    try:
        return cast("int | None", TimeField().clean(request.GET.get("since", "")))
    except ValidationError as error:
        raise BadRequest("invalid since: expected a time, such as 2026-01-31T09:30") from error


def ask_replay(webhook: Stored, request: HttpRequest) -> Asked:
    wanted = choice(request)
    try:
        part = run(deliveries.replay(webhook.name, wanted, now_ms(), is_dry=True))
    except TopicsError as error:
        return Asked(f"Send records of {webhook.name} again", [sentence(error.message)], None)
    records = counted(len(part.found), "record")
    which = "that had no attempt left, and were not delivered since" if wanted.failed else f"of {wanted.topic}"
    if wanted.from_ts is not None:
        which = f"that had no attempt left since {moment(wanted.from_ts)} UTC, and were not delivered later"
    effects = [f"The endpoint gets {records} {which}." if part.found else f"There is no record {which}."]
    if part.found:
        effects.append("They wait for no other record. The receiver knows by webhook-id those that it has seen.")
    if part.next_from is not None:
        effects.append(f"More remain: one action sends up to {amount(MOST_REPLAYED)}.")
    return Asked(f"Send records of {webhook.name} again", effects, f"Send {records} again" if part.found else None)


def replay(webhook: Stored, request: HttpRequest, site: Console) -> str:
    part = run(deliveries.replay(webhook.name, choice(request), now_ms(), is_dry=False))
    return f"{counted(len(part.found), 'record')} {'are' if len(part.found) != 1 else 'is'} sent again."


def ask_rotate(webhook: Stored, request: HttpRequest) -> Asked:
    return Asked(
        f"Rotate the secret of {webhook.name}",
        [
            "The next page shows a new secret, once.",
            "For a day, each call has a signature by both secrets. Give the new one to the receiver until then.",
        ],
        "Make a new secret",
        hidden=(("secret", new_secret()), ("previous_until_ts", webhook.previous_until_ts)),
    )


def rotate(webhook: Stored, request: HttpRequest, site: Console) -> HttpResponse:
    """Gives the webhook the secret of the page before, so that a second click gives the same. Returns the page that shows it.

    Raises Incompatible if the webhook was rotated since that page was made: another secret would drop that of the receivers.
    """
    secret = request.POST.get("secret", "")
    key_of(secret)
    if webhook.secret != secret and request.POST.get("previous_until_ts") != str(webhook.previous_until_ts):
        raise Incompatible("the webhook was rotated while the page was open: open the page again")
    done = run(webhooks.rotate(webhook.name, secret, now_ms()))
    context = {"webhook": done, "name": webhook.name, "secret": secret}
    return site.page(request, "console/webhook_secret.html", title=webhook.name, **context)


def ask_delete(webhook: Stored, request: HttpRequest) -> Asked:
    waits = run(webhooks.waiting([webhook.id])).get(webhook.id)
    effects = [
        "Nothing is sent after this. Its positions are deleted, so a new webhook of this name does not continue."
    ]
    if waits is not None:
        effects.append(f"{counted(waits.records, 'record')} that waited for another call are not sent.")
    effects.append(
        f"Its dead letters stay in the topic {DEAD}{webhook.name}. The audit log keeps the change with your name."
    )
    return Asked(f"Delete {webhook.name}", effects, "Yes, delete the webhook", is_dangerous=True)


def delete(webhook: Stored, request: HttpRequest, site: Console) -> str:
    run(webhooks.delete(webhook.name, OPEN))
    return f"Webhook {webhook.name} is deleted."


ACTIONS = {
    "pause": WebhookAction(CHANGE, ask_pause, set_paused(True)),
    "resume": WebhookAction(CHANGE, ask_resume, set_paused(False)),
    "test": WebhookAction(CHANGE, ask_test, test),
    "replay": WebhookAction(CHANGE, ask_replay, replay),
    "rotate": WebhookAction(CHANGE, ask_rotate, rotate),
    "delete": WebhookAction(DELETE, ask_delete, delete),
}
