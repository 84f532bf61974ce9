"""Pages of one object, such as a topic or a webhook, and the actions of an operator on it."""
