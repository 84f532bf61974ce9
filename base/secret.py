"""A secret from the environment: NAME itself, or NAME_FILE, a file that holds it, as Docker and Kubernetes hand secrets out.

A file is read when the secret is asked for and never copied into the environment, where every child and /proc would show it.
"""

from __future__ import annotations

import os
from pathlib import Path

from base.refusal import Refusal


def given(name: str) -> bool:
    """Whether the secret is in the environment, in either way."""
    return bool(os.environ.get(name, "").strip() or os.environ.get(f"{name}_FILE", "").strip())


def secret(name: str) -> str:
    """Returns the secret, or nothing where it is not given. Raises Refusal for a file that cannot be used, and for both."""
    value, path = os.environ.get(name, "").strip(), os.environ.get(f"{name}_FILE", "").strip()
    if not path:
        return value
    if value:
        raise Refusal(f"{name} and {name}_FILE are both set: unset one of them.")
    try:
        value = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Refusal(f"{name}_FILE={path} cannot be read ({why}): name a file that this process may read.") from error
    if not value:
        raise Refusal(f"{name}_FILE={path} is empty: write the secret into it.")
    return value


def put(name: str, value: str) -> None:
    """Have this secret in the environment, for this process and its children, whatever was given before."""
    os.environ.pop(f"{name}_FILE", None)
    os.environ[name] = value
