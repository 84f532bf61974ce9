"""The bus in the admin: subscribers and operators' actions on them, their deliveries, and topics with their publishers."""

from push.admin import deliveries, subscribers, topics

__all__ = ["deliveries", "subscribers", "topics"]
