"""The bus in the admin: subscribers and what operators do with them, their deliveries, and who publishes what."""

from push.admin import deliveries, subscribers, topics

__all__ = ["deliveries", "subscribers", "topics"]
