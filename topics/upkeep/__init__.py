"""Background work: expiry, reclaim of disk space, and recovery after a crash."""
