"""The SQL door: functions of PostgreSQL's schema `topics`, which an application calls in its own transactions (docs/sql.md)."""
