"""Errors, names, units and the clock, for all other packages. Knows neither PostgreSQL nor HTTP."""
