"""A reason not to start. It ends any process with one line for people, without a traceback."""


class Refusal(SystemExit):
    """`message` names the error and the remedy in one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(f"topics: {message}")
