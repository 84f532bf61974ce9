"""A reason not to start, as one line for people: it ends the process, whichever it is, and shows no traceback."""


class Refusal(SystemExit):
    """What is wrong and what to change, in one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(f"topics: {message}")
