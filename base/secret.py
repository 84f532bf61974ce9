"""A secret from the environment: NAME itself, or NAME_FILE, the path of a file with it (for secrets of Docker and Kubernetes).

The file is read on each use. Its content is never copied into the environment, because every child and /proc would show it.
"""

from __future__ import annotations

import os
from pathlib import Path

from base.refusal import Refusal


def given(name: str) -> bool:
    """Returns whether the environment has NAME or NAME_FILE."""
    return bool(os.environ.get(name, "").strip() or os.environ.get(f"{name}_FILE", "").strip())


def secret(name: str) -> str:
    """Returns the secret, or an empty text without NAME and NAME_FILE. Raises Refusal if both are set or the file is unusable."""
    value, path = os.environ.get(name, "").strip(), os.environ.get(f"{name}_FILE", "").strip()
    if not path:
        return value
    if value:
        raise Refusal(f"{name} and {name}_FILE are both set: unset one of the two.")
    try:
        value = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise Refusal(f"{name}_FILE={path} cannot be read ({why}): set it to a readable file.") from error
    if not value:
        raise Refusal(f"{name}_FILE={path} is empty: write the secret into the file.")
    return value


def put(name: str, value: str) -> None:
    """Set a secret for this process and its children, instead of an earlier NAME or NAME_FILE."""
    os.environ.pop(f"{name}_FILE", None)
    os.environ[name] = value
