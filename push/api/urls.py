"""Table of contents of the bus, at the root of the port."""

from push.api import pulse, subscriptions, tokens, topics

endpoints = (
    tokens.list_tokens,
    tokens.add_token,
    tokens.delete_token,
    *topics.endpoints,
    *subscriptions.endpoints,
    pulse.pulse,
    pulse.scaling,
)
