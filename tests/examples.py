"""How many examples Hypothesis tries: few by default, and THOROUGH times as many where that is set."""

import os

THOROUGH = int(os.environ.get("THOROUGH", "1"))


def examples(quick: int) -> int:
    return quick * THOROUGH
