"""One class for each tool. `states` gives for each id that the tool lists one of `waiting`,
`running`, `ended`, and the exit code where the tool knows it."""

import json
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

from common import SLOTS, Failed, Tool, until


class Gpool(Tool):
    name = "gpool"
    needs = ["gpool"]
    install = "cargo build --release; PATH=$PWD/target/release:$PATH"

    def version(self):
        return self.run("gpool", "--version").split()[-1]

    def start(self):
        self.env["GPOOL_SOCKET"] = str(self.folder / "s")
        self.env["GPOOL_CONFIG"] = "/dev/null"
        self.spawn(
            *("gpool", "up", "--foreground", "--devices", f"sim:{SLOTS}xH100-80G"),
            *("--state-dir", self.folder / "state", "--socket", self.folder / "s"),
        )
        until("gpool answers", lambda: self.run("gpool", "status", check=False))

    def command(self, words):
        return ["gpool", "submit", "--quiet", "--gpus", "1", "--", *words]

    def submit_many(self, words, n):
        line = json.dumps({"command": words, "gpus": "1", "directory": "/"})
        lines = self.folder / "lines"
        lines.write_text(f"{line}\n" * n)
        self.run("gpool", "submit", "--quiet", "--from-jsonl", lines)
        return "one call"

    def n_left(self):
        jobs = json.loads(self.run("gpool", "status", "--json"))["jobs"]
        return sum(jobs.values())

    def states(self):
        listed = self.run("gpool", "queue", "--state", "all", "--json", "-n", "10000")
        phases = {"pending": "waiting", "starting": "running", "running": "running"}
        return {
            job["id"]: (phases.get(job["state"], "ended"), job.get("exit_code"))
            for job in json.loads(listed)["items"]
        }


class TaskSpooler(Tool):
    name = "task-spooler"
    needs = ["tsp"]
    install = "apt-get install task-spooler"
    lasting = False
    drains = 500
    note = "keeps nothing on disk; no GPUs, 8 slots; some 1,000 waiting block the caller"

    def version(self):
        return re.search(r"v([\d.]+)", self.run("tsp", "-V")).group(1)

    def start(self):
        self.env |= {"TS_SOCKET": str(self.folder / "s"), "TS_SLOTS": str(SLOTS)}
        self.env |= {"TS_MAXFINISHED": "5000", "TMPDIR": str(self.folder)}
        self.run("tsp", "-S", SLOTS)

    def pids(self):
        needle = f"TS_SOCKET={self.env.get('TS_SOCKET')}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    is_tsp = (entry / "comm").read_text().strip() == "tsp"
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    if is_tsp and needle in (entry / "environ").read_bytes():
                        found.append((int(entry.name), parent))
                except OSError:
                    pass
        pids = {pid for pid, _ in found}
        # Each job has a tsp of its own below the server.
        return [pid for pid, parent in found if parent not in pids]

    def kill_daemon(self):
        super().kill_daemon()
        for pid in self.pids():
            os.kill(pid, 9)
        until("tsp is gone", lambda: not self.pids())
        (self.folder / "s").unlink(missing_ok=True)

    def command(self, words):
        return ["tsp", *words]

    def submit_many(self, words, n):
        for _ in range(n):
            self.tell(words)
        return "a command each"

    def n_left(self):
        return sum(1 for phase, _ in self.states().values() if phase != "ended")

    def states(self):
        phases = {"queued": "waiting", "running": "running", "finished": "ended"}
        states = {}
        for line in self.run("tsp").splitlines()[1:]:
            fields = line.split()
            code = int(fields[3]) if fields[1] == "finished" else None
            states[fields[0]] = (phases.get(fields[1], "ended"), code)
        return states


class Pueue(Tool):
    name = "pueue"
    needs = ["pueue", "pueued"]
    install = "cargo install pueue --locked"
    drains = 200
    submits = 100
    note = "no GPUs, 8 parallel tasks"

    def version(self):
        return self.run("pueued", "--version").split()[-1]

    def start(self):
        for name in ("CONFIG", "DATA", "RUNTIME"):
            folder = self.folder / name.lower()
            folder.mkdir(exist_ok=True)
            self.env[f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}"] = str(folder)
        self.spawn("pueued")
        until("pueued answers", lambda: self.run("pueue", "status", "-j", check=False))
        self.run("pueue", "parallel", SLOTS)

    def after_crash(self):
        self.run("pueue", "start")
        return "`pueue start`: the group is paused"

    def command(self, words):
        return ["pueue", "add", "-p", "-e", "--", *words]

    def submit_many(self, words, n):
        for _ in range(n):
            self.tell(words)
        return "a command each"

    def n_left(self):
        return sum(1 for phase, _ in self.states().values() if phase != "ended")

    def states(self):
        states = {}
        for id, task in json.loads(self.run("pueue", "status", "-j"))["tasks"].items():
            (word, more), = task["status"].items() if isinstance(task["status"], dict) else (
                (task["status"], {}),)
            code = None
            if word == "Done":
                result = more["result"]
                if result == "Success":
                    code = 0
                elif isinstance(result, dict) and "Failed" in result:
                    code = result["Failed"]
            phases = {"Queued": "waiting", "Stashed": "waiting", "Running": "running"}
            states[id] = (phases.get(word, "ended"), code)
        return states


class Slurm(Tool):
    name = "slurm"
    needs = ["slurmctld", "slurmd", "sbatch", "munged"]
    install = "apt-get install slurm-wlm munge"
    drains = 60
    submits = 100
    note = "default parameters, 8 fake GPUs; kill -9 of slurmctld and slurmd together"

    def version(self):
        return self.run("slurmctld", "-V").split()[-1]

    def configure(self):
        if os.geteuid() != 0:
            raise Failed("it is set up here for root only")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = os.uname().nodename
        for n in range(SLOTS):
            # Any device node will do; nobody opens it.
            os.mknod(self.folder / f"gpu{n}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        for name in ("ctld", "d"):
            (self.folder / name).mkdir()
        port = 20000 + os.getpid() % 20000
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=peers
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={port + 1}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock
CredType=cred/munge
StateSaveLocation={self.folder}/ctld
SlurmdSpoolDir={self.folder}/d
SlurmctldPidFile={self.folder}/ctld.pid
SlurmdPidFile={self.folder}/d.pid
SlurmctldLogFile={self.folder}/ctld.log
SlurmdLogFile={self.folder}/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
MaxJobCount=20000
MaxArraySize=10001
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 Gres=gpu:{SLOTS} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
        files = f"{self.folder}/gpu[0-{SLOTS - 1}]"
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={files}\n")

    def start(self):
        self.env["SLURM_CONF"] = str(self.folder / "slurm.conf")
        if not (self.folder / "slurm.conf").exists():
            self.configure()
        if not any(child.args[0] == "munged" for child in self.daemons):
            self.spawn(
                *("munged", "-F", "--force", "-S", self.folder / "munge.sock"),
                *(f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munge.pid"),
                *(f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed"),
            )
            until("munged answers", lambda: (self.folder / "munge.sock").exists())
        self.spawn("slurmctld", "-D")
        self.spawn("slurmd", "-D")
        up = lambda: re.search(r"idle|mix|alloc", self.run("sinfo", "-h", "-o", "%t", check=False))
        until("the node is up", up, every=0.2)

    def pids(self):
        children = [child for child in self.daemons if child.poll() is None]
        return [child.pid for child in children if child.args[0] != "munged"]

    def kill_daemon(self):
        for pid in self.pids():
            os.kill(pid, 9)
        for child in self.daemons:
            if child.args[0] != "munged":
                child.wait()
        self.daemons = [child for child in self.daemons if child.args[0] == "munged"]

    def close(self):
        self.kill_daemon()
        Tool.close(self)

    def command(self, words):
        options = ["--parsable", "--gres=gpu:1", "-n1", "-o", "/dev/null", "-D", "/"]
        return ["sbatch", *options, f"--wrap={shlex.join(map(str, words))}"]

    def submit_many(self, words, n):
        self.run(*self.command(words), f"--array=1-{n}")
        return "one array"

    def n_left(self):
        return len(self.run("squeue", "-h", "-r", "-o", "%i").split())

    def states(self):
        states = {}
        phases = {"PENDING": "waiting", "RUNNING": "running", "COMPLETING": "running"}
        for line in self.run("scontrol", "-o", "show", "job", check=False).splitlines():
            found = dict(re.findall(r"(JobId|JobState|ExitCode)=(\S+)", line))
            if "JobId" in found:
                phase = phases.get(found["JobState"], "ended")
                code = int(found["ExitCode"].split(":")[0]) if phase == "ended" else None
                states[found["JobId"]] = (phase, code)
        return states


class Gflow(Tool):
    name = "gflow"
    needs = ["gflowd", "gbatch", "gqueue"]
    install = "pip install runqd; NVML_STUB=FILE where there are no 8 GPUs (see README.md)"
    drains = 40
    submits = 100
    executor = "process"
    note = (
        "the process executor, which is not its default; 8 GPUs by a stand-in for NVML; keeps no "
        "exit codes, only that a job finished or failed"
    )

    def version(self):
        return re.search(r"\d+\.\d+\.\d+", self.run("gflowd", "--version")).group(0)

    def start(self):
        for name in ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME"):
            folder = self.folder / name.lower()
            folder.mkdir(exist_ok=True)
            self.env[f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}"] = str(folder)
        self.env["HOME"] = str(self.folder)
        self.env.setdefault("USER", "root")
        stub = os.environ.get("NVML_STUB")
        if stub:
            self.use_stub(Path(stub))
        port = 30000 + os.getpid() % 10000
        folder = self.folder / "config" / "gflow"
        folder.mkdir(exist_ok=True)
        config = folder / "gflow.toml"
        config.write_text(
            f'[daemon]\nhost = "127.0.0.1"\nport = {port}\n\n'
            f'[executor]\ntype = "{self.executor}"\n'
        )
        self.spawn("gflowd", "-c", config)
        answers = lambda: "GPUS" in self.run("ginfo", check=False)
        until("gflowd answers", answers, every=0.1)

    def use_stub(self, stub):
        for name in ("libnvidia-ml.so", "libnvidia-ml.so.1"):
            (self.folder / name).write_bytes(stub.read_bytes())
        device = lambda n: {
            "uuid": f"GPU-stub-{n}", "name": "NVIDIA H100 80GB HBM3", "memory": 80 << 30,
            "bus": f"00000000:0{n}:00.0", "minor": n, "processes": [], "utilization": 0,
        }
        state = {"driver": "570.00", "devices": [device(n) for n in range(SLOTS)]}
        (self.folder / "stub-nvml.json").write_text(json.dumps(state))
        self.env["GPOOL_STUB_STATE"] = str(self.folder / "stub-nvml.json")
        self.env["LD_LIBRARY_PATH"] = str(self.folder)

    def command(self, words):
        return ["gbatch", "--gpus", "1", *words]

    def id_in(self, said):
        return re.search(r"job (?:id )?(\d+)|(\d+)", said, re.IGNORECASE).group(0).split()[-1]

    def submit_many(self, words, n):
        self.run("gbatch", "--gpus", "1", "--array", f"1-{n}", *words)
        return "one array"

    def n_left(self):
        return sum(1 for phase, _ in self.states().values() if phase != "ended")

    def states(self):
        listed = json.loads(self.run("gqueue", "-u", "all", "-a", "-o", "json") or "[]")
        phases = {"Queued": "waiting", "Hold": "waiting", "Running": "running"}
        states = {}
        for job in listed if isinstance(listed, list) else listed.get("jobs", []):
            # It lists no exit codes; that a job finished says that it was 0.
            code = 0 if job["state"] == "Finished" else None
            states[str(job["id"])] = (phases.get(job["state"], "ended"), code)
        return states


ALL = [Gpool, TaskSpooler, Pueue, Slurm, Gflow]


def scratch():
    """A folder with a short path: sockets have at most 107 bytes."""
    return tempfile.mkdtemp(prefix="peers-")
