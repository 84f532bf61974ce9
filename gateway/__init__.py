"""The gateway: several servers of ours behind one address, routed request by request (docs/gateway.md).

It knows neither Django nor a database, and keeps nothing but its configuration. `gateway/api.py` is for plugins.
"""
