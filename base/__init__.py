"""What everything else is built on: errors, names, units and the clock. Knows neither PostgreSQL nor HTTP."""
