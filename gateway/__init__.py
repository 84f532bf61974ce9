"""The gateway: several topics servers behind one address, with a route for each request (docs/gateway.md).

The gateway uses neither Django nor a database, and stores only its configuration. Plugins import `gateway/api.py`.
"""
