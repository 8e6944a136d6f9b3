"""What every adapter needs: processes of its own, their CPU time and memory, and patience."""

import functools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

SLOTS = 8
"""How many jobs each tool may run at once."""


class Failed(Exception):
    """The tool did not do what the measurement needs; the rest goes on without it."""


def until(what, look, seconds=60.0, every=0.01):
    """Looks until there is something, and gives it back."""
    give_up = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > give_up:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(every)


class Account:
    """A control group that counts the CPU time of everything that is started in it: the tool's
    commands, its daemons and the jobs, also those that were reparented."""

    ROOTS = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat"))

    def __init__(self, name):
        self.folder = None
        for root, counter in self.ROOTS:
            if not Path(root, counter).exists():
                continue
            folder = Path(root, f"peers-{os.getpid()}-{name}")
            try:
                folder.mkdir()
            except OSError:
                continue
            self.folder, self.counter = folder, folder / counter
            return

    def enter(self):
        """From now on this process is in it, and with it whatever it starts: to move each child by
        itself would cost more than some of what is measured."""
        if self.folder:
            (self.folder / "cgroup.procs").write_text("0")

    def cpu_ms(self):
        """Milliseconds without those of this process, or None where there is no such counter."""
        if not self.folder:
            return None
        text = self.counter.read_text()
        if self.counter.name == "cpuacct.usage":
            used = int(text) / 1e6
        else:
            used = int(text.split("usage_usec", 1)[1].split()[0]) / 1e3
        return used - time.process_time() * 1e3

    def close(self):
        """Leaves it, ends what is left in it and removes it."""
        if not self.folder:
            return
        (self.folder.parent / "cgroup.procs").write_text("0")
        for _ in range(200):
            pids = [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]
            if not pids:
                break
            for pid in pids:
                kill(pid)
            time.sleep(0.02)
        try:
            self.folder.rmdir()
        except OSError:
            pass


def kill(pid):
    """kill -9, of a process that may be gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def memory_mb(pids):
    """Resident memory of some processes together."""
    kib = 0
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    kib += int(line.split()[1])
        except OSError:
            pass
    return kib * 1024 / 1e6


def lives(pid):
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Tool:
    """One tool in a folder of its own. What follows is the same for all; adapters say the rest."""

    name = ""
    install = ""
    """What to type to have it."""
    lasting = True
    """Whether its manual says that the queue outlives the daemon."""
    drains = 1000
    """Jobs of a drain: fewer for those that would take minutes."""
    submits = 200
    """Commands of the submission rate."""
    note = ""
    """What a reader must know to judge its figures."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.account = Account(self.name)
        self.account.enter()
        self.daemons = []
        self.env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GPOOL_", "SLURM_", "TS_", "PUEUE_", "GFLOW_", "XDG_"))
        }

    @staticmethod
    @functools.cache
    def program(name):
        """Where a program is, or None."""
        return shutil.which(name)

    @classmethod
    def missing(cls):
        """The programs that it needs and that are not there."""
        return [name for name in cls.needs if cls.program(name) is None]

    def spawn(self, *words):
        """Starts a daemon in the foreground."""
        log = open(self.folder / f"{Path(words[0]).name}.log", "ab")
        child = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.env,
            cwd="/",
            start_new_session=True,
        )
        self.daemons.append(child)
        return child

    def run(self, *words, check=True, timeout=60):
        """Runs a command of the tool and gives back what it prints."""
        done = subprocess.run(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.env,
            cwd="/",
            timeout=timeout,
        )
        if check and done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise Failed(f"{' '.join(map(str, words))}: rc {done.returncode}: {said}")
        return done.stdout

    def tell(self, words):
        """Submits a job without looking at the answer: as fast as a process can be started."""
        words = [str(word) for word in self.command(words)]
        program = self.program(words[0])
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
        pid = os.posix_spawn(program, words, self.env, file_actions=quiet)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != 0:
            raise Failed(f"{' '.join(words)}: rc {code}")

    def submit(self, words):
        """Submits a job; its id."""
        return self.id_in(self.run(*self.command(words)))

    def id_in(self, said):
        """The id in what the command prints."""
        return said.strip()

    def pids(self):
        """The processes that are the daemon."""
        return [child.pid for child in self.daemons if child.poll() is None]

    def kill_daemon(self):
        """kill -9 of all of them."""
        for pid in self.pids():
            kill(pid)
        for child in self.daemons:
            child.wait()
        self.daemons = []

    def after_crash(self):
        """What its user has to do by hand after the restart, if anything; in words."""
        return ""

    def close(self):
        """Ends all that it started."""
        self.kill_daemon()
        self.account.close()
