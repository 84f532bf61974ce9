"""The signals that ask a process to end."""

import signal
import threading


def ending_signals() -> list[signal.Signals]:
    """Returns the signals that are to end this process.

    SIGHUP comes at the end of a terminal. A process that was started with SIGHUP ignored, as nohup does, outlives its terminal.
    """
    asked = [signal.SIGINT, signal.SIGTERM]
    return asked if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [*asked, signal.SIGHUP]


def on_signals() -> threading.Event:
    """Returns an event that these signals set."""
    stopping = threading.Event()
    for number in ending_signals():
        # A handler can interrupt the event's wait() while wait() holds the event's lock. So another thread sets the event.
        signal.signal(number, lambda *_: threading.Thread(target=stopping.set, daemon=True).start())
    return stopping
