"""Prints docs/settings.md, which has a table for each group of settings (topics_project/environment.py)."""

from collections.abc import Iterator

from topics_project.environment import GROUPS, MOST, MOST_BYTES, SETTINGS, Group, Setting

HEAD = """\
# Settings

For operators: every setting, with default, values, and reasons to change.

All settings are environment variables. The server refuses to start with an invalid value or an unknown `TOPICS_…` name, and says
in one line what to change. A secret can come from a file, for example `SECRET_KEY_FILE=/run/secrets/secret_key`.

A flag takes `1` or `0`. A list has commas between its entries. `_MS`, `_SECONDS`, `_DAYS` and `_BYTES` in a name are its unit.
Without an upper bound in its row, it is 2,147,483,647, or 2^62 for caps of bytes.
"""

TAIL = """\
A cap per key counts each key, or, if no key is configured, each address (each /64 network of IPv6). With `TOPICS_TLS_PROXY=1` the
address is the last one in `X-Forwarded-For`. Otherwise all clients behind a proxy count as one client.

Commands also read [`TOPICS_URL` and `TOPICS_KEY`](cli.md#which-server).

## Fixed times

| what | time |
|---|---|
| a `disk` append is flushed (three times PostgreSQL's `wal_writer_delay`) | 0.6 s |
| a changed or revoked key counts in every process | 1 s |
| the sweep finds routers and deliveries that missed a wake-up | 1 s; after a change of a router 60 s |
| a router tries a full dest again | up to 5 s |
| a process writes its heartbeat | 2 s |
| a process without a heartbeat counts as stopped | 15 s |
| a router counts as stalled | 10 s |
| a request waits in a shared transaction for a lock before it gets a line of its own | 100 ms |
| a web process that stops lets its requests finish | 3 s |
"""


def default(setting: Setting) -> str:
    value = int(setting.default) if isinstance(setting.default, bool) else setting.default
    return setting.shown or (f"`{value}`" if value != "" else "none")


def values(setting: Setting) -> str:
    """Returns the values that a setting takes, with their unit if its name lacks it."""
    if setting.bounds is None:
        return setting.values
    least, most = setting.bounds
    bounds = f"from {least}" if most in (MOST, MOST_BYTES) else f"{least} to {most}"
    return f"{bounds} {setting.values}".rstrip()


def rows(settings: dict[str, Setting]) -> Iterator[str]:
    """Yields the lines of a table. Without a reason to change in any row, the table has no column for it."""
    has_reasons = any(setting.change for setting in settings.values())
    yield "| setting | default; values | meaning |" + " change it if |" * has_reasons
    yield "|---|---|---|" + "---|" * has_reasons
    for name, setting in settings.items():
        row = f"| `{name}` | {default(setting)}; {values(setting)} | {setting.meaning} |"
        yield row + f" {setting.change} |" * has_reasons


def section(group: Group) -> str:
    settings = {name: setting for name, setting in SETTINGS.items() if setting.group is group}
    return "\n\n".join([f"## {group.title}", *([group.note] if group.note else []), "\n".join(rows(settings))])


def page() -> str:
    """Returns docs/settings.md. The settings must be loaded."""
    return "\n".join([HEAD, *(f"{section(group)}\n" for group in GROUPS), TAIL])
