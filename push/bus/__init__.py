"""The bus itself: clients, topics, events, and subscriptions with their queues."""
