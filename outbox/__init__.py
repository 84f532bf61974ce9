"""The outbox: records that applications emit in their own transactions, and the relay that moves them to their topics."""
