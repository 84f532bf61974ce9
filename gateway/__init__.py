"""The gateway: several topics servers behind one address, with a route for each request (docs/gateway.md).

The gateway uses neither Django nor a database, and stores only its configuration. Plugins import `gateway/api.py`.

    configuration/   the file, its checks, and the tree of routers and clusters
    proxy/           the way of a request to a server and back
    rewrite/         names, seqs and identifiers in requests, answers and frames
    filters/         the built-in filters
    routers/         the built-in routers
"""
