"""PostgreSQL without a domain: connections, what goes over them, and what their errors mean."""
