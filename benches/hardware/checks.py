"""Runs gpool on a machine with an NVIDIA GPU, and prints what docs/hardware.md reports.

    python3 checks.py [CHECK...]

It needs root, a free GPU with at least 80 GB, PyTorch, JAX, CuPy, nvcc, `gpool` in PATH, and a user
for the jobs (--user, default nobody). No server may run: it starts one of its own with `gpool up`
in a temporary state folder, and ends it. docs/hardware.md explains the figures.
"""

import argparse
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
SETTINGS = 'loan_deadline = "6s"\nweb = "127.0.0.1:7479"\n'


def shell(command, timeout=60):
    done = subprocess.run(command, shell=True, text=True, capture_output=True, timeout=timeout)
    return (done.stdout + done.stderr).strip()


def until(holds, timeout=90):
    """Waits until something is true; returns the time that this took."""
    begin = time.time()
    while not holds():
        if time.time() - begin > timeout:
            raise TimeoutError
        time.sleep(0.02)
    return time.time() - begin


def used():
    """GiB in use on the first GPU, by nvidia-smi."""
    query = "nvidia-smi --id=0 --query-gpu=memory.used --format=csv,noheader,nounits"
    return float(shell(query)) / 1024


class Machine:
    """A server with its folders, and what the checks say."""

    def __init__(self, user):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpool-hardware-"))
        self.folder.chmod(0o777)
        for file in HERE.iterdir():
            shutil.copy(file, self.folder)
        for name in ("launch", "illegal"):
            shell(f"cd {self.folder} && nvcc -O2 -o {name} {name}.cu")
        (self.folder / "gpool.toml").write_text(SETTINGS)
        os.environ["GPOOL_CONFIG"] = str(self.folder / "gpool.toml")
        self.socket = self.folder / "api.sock"
        os.environ["GPOOL_SOCKET"] = str(self.socket)
        self.user = user
        print(shell(f"gpool up --state-dir {self.folder}/state --socket {self.socket}"))

    def gpool(self, words):
        return shell(f"gpool {words}")

    def as_user(self, words, env=""):
        group = pwd.getpwnam(self.user).pw_gid
        user = f"setpriv --reuid={self.user} --regid={group} --clear-groups"
        return shell(f"cd {self.folder} && {user} env HOME=/tmp {env} gpool {words}")

    def job(self, job):
        return json.loads(self.gpool(f"show {job} --json"))["items"][0]

    def start(self, name, flags, env=""):
        return Program(self, name, flags, env)

    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:7479/metrics") as answer:
            return answer.read().decode()

    def say(self, what, result):
        print(f"{what:40} {result}", flush=True)

    def end(self):
        self.gpool("down --now")
        shutil.rmtree(self.folder, ignore_errors=True)


class Program:
    """A job that runs program.py."""

    def __init__(self, machine, name, flags, env):
        self.machine, self.name, self.n_sent = machine, name, 0
        self.base = machine.folder / name
        for end in (".in", ".out"):
            self.base.with_suffix(end).write_text("")
            self.base.with_suffix(end).chmod(0o666)
        program = f"{sys.executable} {machine.folder}/program.py {name}"
        said = machine.as_user(f"submit -q -J {name} {flags} -- {program}", env)
        self.id = next((line for line in said.splitlines() if line.isdigit()), None)
        if self.id is None:
            raise RuntimeError(said)
        if "jax" not in name:
            self.sizes = self.ask("load()")

    def send(self, command):
        with open(self.base.with_suffix(".in"), "a") as file:
            file.write(command + "\n")
        self.n_sent += 1

    def answer(self):
        out = self.base.with_suffix(".out")
        until(lambda: out.read_text().count("\n") >= self.n_sent)
        said = json.loads(out.read_text().splitlines()[self.n_sent - 1])
        self.took = said["took"]
        return said.get("value", said.get("error"))

    def ask(self, command):
        self.send(command)
        return self.answer()

    def state(self):
        return self.machine.job(self.id)["state"]

    def is_freed(self):
        return self.machine.job(self.id).get("freed") is True

    def pause(self):
        """Pauses the job; returns the time until its GPU is free."""
        begin = time.time()
        self.machine.gpool(f"pause {self.id}")
        until(self.is_freed)
        return time.time() - begin

    def resume(self, command):
        """Lets it continue with a command; returns the answer and the time until then."""
        begin = time.time()
        self.send(command)
        self.machine.gpool(f"resume {self.id}")
        return self.answer(), time.time() - begin

    def end(self):
        begin = time.time()
        self.machine.gpool(f"cancel {self.id}")
        until(lambda: self.state() == "cancelled")
        return time.time() - begin


def doctor(it):
    print(it.gpool("doctor"))
    print(it.gpool("gpus 0"))


def outside(it):
    code = (
        "import time, torch; memory = torch.ones(1 << 28, device='cuda'); print(flush=True)\n"
        "time.sleep(99)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    other.stdout.readline()
    it.say("a process outside is seen after", until(lambda: "unmanaged" in it.gpool("gpus")))
    job = it.gpool("submit -q -g 1 -- true").split()[0]
    print(it.gpool(f"why {job}"))
    other.kill()
    other.wait()
    it.say("the job runs after its end", until(lambda: it.job(job)["state"] == "succeeded"))


def load(it):
    job = it.start("load", "-g 1")
    job.send("multiply(10)")
    time.sleep(6)
    print(it.gpool("gpus 0"))
    print(shell("nvidia-smi --id=0 -q -d UTILIZATION,TEMPERATURE,POWER,CLOCK,ECC,ROW_REMAPPER"))
    it.say("TFLOP/s", job.answer())
    job.end()
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0)); open('/dev/nvidia0')"
    it.say("without a GPU", it.as_user(f'run -- {sys.executable} -c "{code}"'))


def caps(it):
    allocators = ["", "expandable_segments:True", "backend:cudaMallocAsync"]
    for ix, allocator in enumerate(allocators):
        variable = f"PYTORCH_CUDA_ALLOC_CONF={allocator}" if allocator else ""
        job = it.start(f"cap{ix}", "--gpus 1@20G", variable)
        it.say(f"20 GiB {allocator}", (job.sizes["total"], job.ask("fill()")))
        if not allocator:
            it.say("20 GiB managed", job.ask("fill_managed()"))
            it.gpool(f"edit {job.id} --gpus 1@30G")
            time.sleep(2)
            it.say("30 GiB", job.ask("fill()"))
            it.say("with the library", job.ask("run('launch')"))
            it.say("without", job.ask("run_alone('launch')"))
        job.end()


def pauses(it):
    job = it.start("pauses", "-g 1 --exits pause,requeue")
    for gib in (4, 20, 50):
        before, memory = job.ask(f"hold({gib})"), used()
        it.say(f"pause of {memory:.1f} GiB", job.pause())
        after, took = job.resume("total()")
        it.say(f"resume of {memory:.1f} GiB, same data", (took, before == after))
        job.ask("drop()")
    job.ask("hold(4)")
    it.say("end of a resumed job", (job.end(), used()))
    job = it.start("synchronizes", "-g 1 --exits pause,requeue")
    job.ask("hold(6)")
    job.send("synchronize(20)")
    for _ in range(3):
        time.sleep(2)
        job.pause()
        it.gpool(f"resume {job.id}")
    it.say("longest synchronization", (job.answer(), job.state()))
    job.end()


def jax(it):
    for name, flags in (("jax-share", "--gpus 0.25"), ("jax-whole", "-g 1")):
        job = it.start(name, f"{flags} --exits pause,requeue", "XLA_PYTHON_CLIENT_MEM_FRACTION=.3")
        held = job.ask("jax_hold()")
        it.say(name, held)
        for _ in range(3):
            pause = job.pause()
            after, took = job.resume("jax_total()")
            it.say("pause, resume, same data", (pause, took, after == held["sum"]))
        job.end()


def loans(it):
    borrower = it.start("borrower", "--gpus 0.25:1")
    size = borrower.sizes["total"]
    borrower.ask("signal_me()")
    borrower.ask(f"cache({size * 0.7})")
    owner = it.start("owner", "--gpus 0.5")
    owner.ask(f"hold({size * 0.44})")
    it.say("a loan came back within", owner.took)
    owner.end()
    borrower.end()
    borrower = it.start("keeps", "--gpus 0.05:1 --exits pause,requeue")
    before = borrower.ask("hold(30)")
    owner = it.start("owner2", "--gpus 0.9")
    owner.ask(f"hold({size * 0.82})")
    it.say("the owner waited", owner.took)
    owner.end()
    it.say("the borrower has its data", borrower.ask("total()") == before)
    print(it.gpool(f"events {borrower.id}"))
    borrower.end()


def beside(it):
    paused = it.start("paused", "--gpus 0.3 --exits pause,requeue")
    greedy = it.start("greedy", "--gpus 0.25:1")
    before = paused.ask("hold(20)")
    paused.pause()
    greedy.send("fill_again(15)")
    time.sleep(3)
    after, took = paused.resume("total()")
    it.say("restore beside a greedy job, same data", (took, before == after))
    it.say("the greedy job got", greedy.answer())
    paused.end()
    greedy.end()


def release(it):
    it.gpool("policy set idle=release")
    job = it.start("notebook", "-g 1 --kind notebook --idle-after 3s")
    before = job.ask("hold(8)")
    it.say("idle GPU is free after", until(job.is_freed))
    it.say("next call, same data", (job.ask("total()") == before, job.took))
    job.ask("beat(8)")
    time.sleep(7)
    it.say("a beat keeps it", not job.is_freed())
    job.end()
    it.gpool("policy set idle=report")


def compute(it):
    one, other = it.start("one", "--gpus 0.25"), it.start("other", "--gpus 0.25")
    one.send("multiply(8)")
    other.send("multiply(8)")
    time.sleep(4)
    print(it.gpool("gpus 0"))
    print(shell("nvidia-smi pmon -c 3 -s um"))
    it.say("TFLOP/s", (one.answer(), other.answer()))
    one.end()
    other.end()


def xid(it):
    job = it.start("xid", "-g 1")
    it.say("illegal access", job.ask("run('illegal')"))
    it.say("Xid counted after", until(lambda: "gpu_xid_errors_total{" in it.metrics()))
    it.say("Xids of the job", it.job(job.id).get("xids"))
    print(it.gpool("gpus 0"))
    job.end()


CHECKS = [doctor, outside, load, caps, pauses, jax, loans, beside, release, compute, xid]


def main():
    parser = argparse.ArgumentParser(usage="checks.py [--user NAME] [CHECK...]")
    parser.add_argument("--user", default="nobody")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    arguments = parser.parse_args()
    known = {check.__name__: check for check in CHECKS}
    wrong = [name for name in arguments.checks if name not in known]
    if wrong:
        sys.exit(f"there is no check {wrong[0]}; these are {', '.join(known)}")
    machine = Machine(arguments.user)
    try:
        for name in arguments.checks or known:
            print(f"\n== {name}", flush=True)
            try:
                known[name](machine)
            except Exception as error:
                machine.say(name, f"failed: {type(error).__name__}: {error}")
                print(machine.gpool("queue --state all"))
                machine.gpool("cancel all --user all --yes")
    finally:
        machine.end()


main()
