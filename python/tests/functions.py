"""Functions that jobs of the tests import."""

import threading


def add(one, other=0):
    """A sum."""
    return one + other


def touch_and_wait(path):
    """Shows that it runs, and waits until it may end."""
    import os
    import time

    open(f"{path}.runs", "w").close()
    while not os.path.exists(path):
        time.sleep(0.02)
    return "waited"


class LockedError(Exception):
    """An exception that can't be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class TwoPartError(Exception):
    """An exception that can be pickled, and not be read again."""

    def __init__(self, one, other):
        super().__init__(one + other)


def fail_locked():
    """Raises an exception that can't be pickled."""
    raise LockedError("locked")


def fail_in_two_parts():
    """Raises an exception that can't be read again."""
    raise TwoPartError("one ", "other")


def lock():
    """Returns what can't be pickled."""
    return threading.Lock()


def large():
    """Returns a megabyte."""
    return b"x" * (1 << 20)
