"""PostgreSQL without a domain: connections, scripts, and the meaning of errors."""
