"""The operators' console: what the admin shows of the whole instance, and what it lets people do about it."""
