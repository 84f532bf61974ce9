"""What runs in the background: expiring, giving disk back, and recovery after a crash."""
