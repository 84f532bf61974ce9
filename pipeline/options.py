"""Options of the data source `topics`. Unknown options and invalid values are refused before any read."""

from __future__ import annotations

from collections.abc import Mapping, Set

from base.bigint import bigint
from base.errors import InvalidRequest
from pipeline.database import Database, database

# Spark's own options, which Spark passes to every source.
OF_SPARK = {"checkpointlocation", "queryname"}
OF_DATABASE = frozenset(("dsn", "url", "user", "password"))


class Options:
    """The given options. Names are case-insensitive, as in Spark."""

    def __init__(self, given: Mapping[str, str], known: Set[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Raises InvalidRequest for an unknown option. `elsewhere`: where else an option is known, for the message."""
        self.given = {name.lower(): value for name, value in given.items()}
        for name, where in (elsewhere or {}).items():
            if name.lower() in self.given:
                raise InvalidRequest(f"{name} is for {where} only")
        if unknown := self.given.keys() - {name.lower() for name in known} - OF_SPARK:
            raise InvalidRequest(
                f"no option is called {', '.join(sorted(unknown))}: there are {', '.join(sorted(known))}"
            )

    def text(self, name: str) -> str | None:
        return self.given.get(name.lower()) or None

    def listed(self, name: str) -> tuple[str, ...]:
        """Returns the values of a list with commas, or () if the option is missing."""
        return tuple(each.strip() for each in (self.text(name) or "").split(",") if each.strip())

    def number(self, name: str, least: int = 0) -> int | None:
        """Returns a whole number, or None if the option is missing. Raises InvalidRequest below `least` or for other text."""
        value = self.text(name)
        return None if value is None else whole(name, value, least)

    def flag(self, name: str, default: bool) -> bool:
        """Returns a boolean. Raises InvalidRequest unless the value is true or false."""
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise InvalidRequest(f"{name}={value} is neither true nor false")
        return value == "true"

    def database(self) -> Database:
        """Returns the database of `dsn` or `url`, by default of DATABASE_URL. `user` and `password` take precedence.

        Raises InvalidRequest if both options are given, or Refusal.
        """
        dsn, url = self.text("dsn"), self.text("url")
        if dsn and url:
            raise InvalidRequest("dsn and url say the same: give one of them")
        return database(dsn or url, **{name: value for name in ("user", "password") if (value := self.text(name))})


def whole(name: str, value: str, least: int = 0) -> int:
    """Returns the whole number in a text. Raises InvalidRequest below `least` or for other text."""
    number = bigint(value)
    if number is None or number < least:
        raise InvalidRequest(f"{name}={value} is not a whole number of at least {least}")
    return number
