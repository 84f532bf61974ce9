"""MigrateRouter: moves topics to another server, in steps that any process can repeat."""
