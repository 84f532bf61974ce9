"""Options of the data source `topics`, read once: what is not known, or cannot be, is refused before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from base.bigint import bigint
from base.errors import InvalidRequest
from pipeline.database import Database, database

# Spark's own, which it hands on to every source.
OF_SPARK = {"checkpointlocation", "queryname"}


class Options:
    """The options that somebody gave, by name; Spark does not tell capitals from small letters."""

    def __init__(self, given: Mapping[str, str], known: set[str]) -> None:
        """Raises InvalidRequest for an option that is not known."""
        self.given = {name.lower(): value for name, value in given.items()}
        if unknown := self.given.keys() - {name.lower() for name in known} - OF_SPARK:
            raise InvalidRequest(
                f"no option is called {', '.join(sorted(unknown))}: there are {', '.join(sorted(known))}"
            )

    def text(self, name: str) -> str | None:
        return self.given.get(name.lower()) or None

    def number(self, name: str, least: int = 0) -> int | None:
        """Raises InvalidRequest for what is no whole number of at least that."""
        value = self.text(name)
        if value is None:
            return None
        number = bigint(value)
        if number is None or number < least:
            raise InvalidRequest(f"{name}={value} is not a whole number of at least {least}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """Raises InvalidRequest for what is neither true nor false."""
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise InvalidRequest(f"{name}={value} is neither true nor false")
        return value == "true"

    def database(self) -> Database:
        """By `dsn` or `url`, else DATABASE_URL. Raises InvalidRequest where both are given, or Refusal."""
        dsn, url = self.text("dsn"), self.text("url")
        if dsn and url:
            raise InvalidRequest("dsn and url say the same: give one of them")
        return database(dsn or url)
