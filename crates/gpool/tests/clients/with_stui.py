"""Opens stui on a terminal, and reads the name of a job from its screen."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

job = subprocess.check_output(
    ["sbatch", "--parsable", "-J", "shown-by-stui", "--wrap", "sleep 1000"], text=True).strip()
stui = Path(sys.executable).with_name("stui")
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="xterm", COLUMNS="160", LINES="40")
    os.execv(stui, [str(stui)])
import fcntl  # noqa: E402
import struct  # noqa: E402
import termios  # noqa: E402

fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
screen, end = b"", time.time() + 60
while b"shown-by-stui" not in screen and time.time() < end:
    if select.select([terminal], [], [], 1)[0]:
        try:
            screen += os.read(terminal, 65536)
        except OSError:
            break
os.kill(child, signal.SIGKILL)
subprocess.run(["scancel", job], check=True)
assert b"shown-by-stui" in screen, screen[-3000:].decode(errors="replace")
print("the job is on its screen")
