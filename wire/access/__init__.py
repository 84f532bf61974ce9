"""Decides who may call, by host, origin, address and API key, and lets visitors into the admin."""
