"""A headless Chromium, spoken to through its debugging pipe: no driver, no library."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]


class Browser:
    """One page."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = os.fdopen(commands, "wb", 0), os.fdopen(answers, "rb", 0)
        self.number = 0
        self.rest = b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    session: str | None = None

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def read(self) -> Any:
        while b"\0" not in self.rest:
            data = self.answers.read(65536)
            assert data, "Chromium is gone"
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def visit(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def close(self) -> None:
        self.commands.close()
        self.answers.close()


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "this test needs Chromium: apt-get install chromium"
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()

    def pipes() -> None:  # it reads commands from 3 and answers on 4
        os.dup2(os.dup(theirs_in), 3)
        os.dup2(os.dup(theirs_out), 4)

    with tempfile.TemporaryDirectory(prefix="topics-chromium-", ignore_cleanup_errors=True) as profile:
        argv = [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(
            argv, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            os.close(theirs_in)
            os.close(theirs_out)
            browser = Browser(ours_out, ours_in)
            try:
                yield browser
            finally:
                process.kill()
                browser.close()
