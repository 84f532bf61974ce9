"""Table of contents of the bus, at the root of the port, and of /v0/webhooks."""

from push.api import pulse, subscriptions, tokens, topics, webhooks

endpoints = (
    tokens.list_tokens,
    tokens.add_token,
    tokens.delete_token,
    *topics.endpoints,
    *subscriptions.endpoints,
    pulse.pulse,
    pulse.scaling,
    *webhooks.endpoints,
)
