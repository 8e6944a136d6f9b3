//! The flags of `sbatch`, `srun`, `salloc` and `#SBATCH` lines. [`super::translate`] translates
//! them.

use crate::foreign::flag::FlagSupport::{Approximated, Covered, Ignored, Instead};
use crate::foreign::flag::Takes::{Maybe, Nothing, Value};
use crate::foreign::flag::{Flag, Spoken, row};

const NO_STEPS: &str = "processes are placed evenly, node by node";
const ONE_NODE: &str = "nodes are chosen by gpool; leave it out";
const NO_NEED: &str = "it has no effect";
const NOT_CHOSEN: &str = "nodes are chosen by gpool";
const TOPOLOGY: &str = "only the number of cores counts";

/// The flags that `sbatch`, `srun`, `salloc` and `#SBATCH` lines share.
pub static JOB: &[Flag] = &[
    row("account", 'A', Value, Approximated, "--project, if there is one of that name"),
    row("begin", 'b', Value, Covered, "--begin"),
    row("chdir", 'D', Value, Covered, "--cwd").also(&["workdir"]),
    row("comment", '\0', Value, Covered, "--note"),
    row("constraint", 'C', Value, Approximated, "--where: labels and GPU models, by & or by |"),
    row("cpus-per-gpu", '\0', Value, Covered, "--cpus, times the GPUs"),
    row("cpus-per-task", 'c', Value, Covered, "--cpus"),
    row("deadline", '\0', Value, Covered, "--deadline"),
    row(
        "dependency",
        'd',
        Value,
        Approximated,
        "--after and --after-one; after afterok afterany afternotok aftercorr singleton",
    ),
    row("error", 'e', Value, Covered, "--stderr"),
    row("exclude", 'x', Value, Covered, "--not-node"),
    row("exclusive", '\0', Maybe, Approximated, "--exclusive; the job gets the GPUs it requests"),
    row("export", '\0', Value, Approximated, "-e, and --clean-env for NONE and for lists"),
    row("gpus", 'G', Value, Covered, "--gpus, of all tasks together"),
    row("gpus-per-node", '\0', Value, Covered, "--gpus, of a node's tasks together"),
    row("gpus-per-task", '\0', Value, Covered, "--gpus"),
    row("gres", '\0', Value, Approximated, "--gpus for gpu[:MODEL][:N]; a warning names others"),
    row("hold", 'H', Nothing, Covered, "--hold"),
    row("input", 'i', Value, Covered, "--stdin"),
    row("job-name", 'J', Value, Covered, "--name"),
    row("mail-type", '\0', Value, Approximated, "--notify EVENTS@mailto:…; END is any end"),
    row("mail-user", '\0', Value, Covered, "--notify EVENTS@mailto:…; by default the caller"),
    row("mem", '\0', Value, Covered, "--mem; a bare number is MB, and 0 requests none"),
    row("mem-per-cpu", '\0', Value, Covered, "--mem, times the cores"),
    row("mem-per-gpu", '\0', Value, Covered, "--mem, times the GPUs: host memory, with a warning"),
    row("nice", '\0', Maybe, Approximated, "--priority -N, from -1000 to 1000"),
    row("nodelist", 'w', Value, Approximated, "--node: on all of these and on no others"),
    row("nodes", 'N', Value, Approximated, "--nodes; a range is refused"),
    row(
        "ntasks",
        'n',
        Value,
        Covered,
        "--launcher; without --nodes, and GPUs of nodes, --tasks too",
    ),
    row("ntasks-per-node", '\0', Value, Covered, "--launcher, times the nodes")
        .also(&["tasks-per-node"]),
    row("output", 'o', Value, Covered, "--stdout, and --stderr where there is no --error"),
    row("partition", 'p', Value, Approximated, "--pool, if there is one of that name"),
    row("priority", '\0', Value, Ignored, "use --nice, or --priority of gpool"),
    row("qos", 'q', Value, Ignored, "use --project and --priority"),
    row("no-requeue", '\0', Nothing, Covered, "jobs are not requeued by default"),
    row("requeue", '\0', Nothing, Covered, "--requeue"),
    row("signal", '\0', Value, Approximated, "--signal-before; without B: to all but the script"),
    row("time", 't', Value, Covered, "--time"),
    row("wait-all-nodes", '\0', Value, Covered, "a job starts on all of its nodes at once"),
];

/// Shared flags with little or no meaning in gpool.
static MINOR: &[Flag] = &[
    row("acctg-freq", '\0', Value, Ignored, "usage is always counted"),
    row("bb", '\0', Value, Ignored, "there are no burst buffers"),
    row("bbf", '\0', Value, Ignored, "there are no burst buffers"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster; --server names another"),
    row("cluster-constraint", '\0', Value, Ignored, "a server has one cluster"),
    row("container", '\0', Value, Instead, "start the container in the script: podman run …"),
    row("contiguous", '\0', Nothing, Ignored, ONE_NODE),
    row("core-spec", 'S', Value, Ignored, TOPOLOGY),
    row("cores-per-socket", '\0', Value, Ignored, TOPOLOGY),
    row("cpu-freq", '\0', Value, Ignored, "gpool does not change frequencies"),
    row("delay-boot", '\0', Value, Ignored, NO_NEED),
    row("distribution", 'm', Value, Ignored, NO_STEPS),
    row("extra-node-info", 'B', Value, Ignored, TOPOLOGY),
    row("get-user-env", '\0', Maybe, Ignored, "a job gets its caller's environment"),
    row("gid", '\0', Value, Instead, "submit as that user: sudo -u USER sbatch …"),
    row("gpu-bind", '\0', Value, Ignored, "each job sees its own GPUs only"),
    row("gpu-freq", '\0', Value, Ignored, "gpool does not change frequencies"),
    row("gpus-per-socket", '\0', Value, Instead, "--gpus N"),
    row("gres-flags", '\0', Value, Ignored, NO_NEED),
    row("hint", '\0', Value, Ignored, TOPOLOGY),
    row("kill-on-invalid-dep", '\0', Value, Ignored, "such a job ends with that reason"),
    row("licenses", 'L', Value, Ignored, "there are no licenses"),
    row("mcs-label", '\0', Value, Ignored, NO_NEED),
    row("mem-bind", '\0', Value, Ignored, TOPOLOGY),
    row("mincpus", '\0', Value, Ignored, "use --cpus-per-task"),
    row("network", '\0', Value, Ignored, NO_NEED),
    row("no-kill", 'k', Maybe, Ignored, ONE_NODE),
    row("nodefile", 'F', Value, Ignored, NOT_CHOSEN),
    row("ntasks-per-core", '\0', Value, Ignored, NO_STEPS),
    row("ntasks-per-gpu", '\0', Value, Ignored, NO_STEPS),
    row("ntasks-per-socket", '\0', Value, Ignored, NO_STEPS),
    row("overcommit", 'O', Nothing, Ignored, NO_STEPS),
    row("oversubscribe", 's', Nothing, Ignored, "GPUs are only shared on request"),
    row("power", '\0', Value, Ignored, NO_NEED),
    row("prefer", '\0', Value, Ignored, NOT_CHOSEN),
    row("profile", '\0', Value, Ignored, "usage is always counted"),
    row("propagate", '\0', Maybe, Ignored, "a job gets its caller's limits"),
    row("quiet", 'Q', Nothing, Covered, "--quiet"),
    row("reboot", '\0', Nothing, Ignored, "gpool restarts no nodes"),
    row("reservation", '\0', Value, Ignored, "gpool reserve is for users, projects and jobs"),
    row("sockets-per-node", '\0', Value, Ignored, TOPOLOGY),
    row("spread-job", '\0', Nothing, Ignored, ONE_NODE),
    row("switches", '\0', Value, Ignored, ONE_NODE),
    row("thread-spec", '\0', Value, Ignored, TOPOLOGY),
    row("threads-per-core", '\0', Value, Ignored, TOPOLOGY),
    row("time-min", '\0', Value, Ignored, "--time does not change"),
    row("tmp", '\0', Value, Ignored, "disk space is not scheduled"),
    row("tres-per-task", '\0', Value, Approximated, "--gpus and --cpus; cpu and gres/gpu only"),
    row("uid", '\0', Value, Instead, "submit as that user: sudo -u USER sbatch …"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("use-min-nodes", '\0', Nothing, Ignored, ONE_NODE),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("wckey", '\0', Value, Ignored, "--comment is shown beside the job"),
];

/// The flags that only `sbatch` and its directives have.
pub static BATCH: &[Flag] = &[
    row("array", 'a', Value, Covered, "--array"),
    row("batch", '\0', Value, Ignored, NOT_CHOSEN),
    row("export-file", '\0', Value, Instead, "--env-file FILE of gpool submit"),
    row("ignore-pbs", '\0', Nothing, Covered, "PBS lines are never read"),
    row("open-mode", '\0', Value, Covered, "--open-mode"),
    row("parsable", '\0', Nothing, Covered, "only the id is printed"),
    row("strict", '\0', Nothing, Covered, "of gpool: ignored flags become errors"),
    row("test-only", '\0', Nothing, Covered, "--dry-run"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("wait", 'W', Nothing, Covered, "waits, and exits with the job's code"),
    row("wrap", '\0', Value, Covered, "runs the line with /bin/sh"),
];

/// The flags that only `salloc` has.
static ALLOC: &[Flag] = &[
    row("bell", '\0', Nothing, Ignored, "the terminal's prompt shows it"),
    row("immediate", 'I', Maybe, Approximated, "--no-queue: at once, whatever its number"),
    row("kill-command", 'K', Maybe, Covered, "the signal for the command when the job has ended"),
    row("no-bell", '\0', Nothing, Covered, "there is no bell"),
    row("no-shell", '\0', Nothing, Covered, "the job stays until scancel or its time limit"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

/// The flags that only `srun` has.
static RUN: &[Flag] = &[
    row("bcast", '\0', Maybe, Ignored, ONE_NODE),
    row("bcast-exclude", '\0', Value, Ignored, ONE_NODE),
    row("compress", '\0', Maybe, Ignored, ONE_NODE),
    row("cpu-bind", '\0', Value, Ignored, TOPOLOGY),
    row("disable-status", 'X', Nothing, Ignored, "Ctrl-C leaves the job, twice cancels it"),
    row("epilog", '\0', Value, Ignored, "put it into the command"),
    row("exact", '\0', Nothing, Covered, "a step with a number of GPUs has exclusive GPUs"),
    row("het-group", '\0', Value, Instead, "one job for each part"),
    row("immediate", 'I', Maybe, Approximated, "--no-queue: at once, whatever its number"),
    row("interactive", '\0', Nothing, Ignored, NO_NEED),
    row("jobid", '\0', Value, Covered, "a step in a running job of yours"),
    row("kill-on-bad-exit", 'K', Maybe, Covered, "the first process that fails ends the others"),
    row("label", 'l', Nothing, Covered, "each line with the rank of its process"),
    row(
        "mpi",
        '\0',
        Value,
        Approximated,
        "PMI-1, as MPICH has it; Open MPI starts by mpirun; none: no PMI",
    ),
    row("multi-prog", '\0', Nothing, Covered, "the file names the program of each process"),
    row("no-allocate", 'Z', Nothing, Instead, "run the command without srun"),
    row("open-mode", '\0', Value, Covered, "--open-mode"),
    row("overlap", '\0', Nothing, Covered, "also GPUs of other steps"),
    row("preserve-env", 'E', Nothing, Ignored, "a job gets its caller's environment"),
    row("prolog", '\0', Value, Ignored, "put it into the command"),
    row("pty", '\0', Nothing, Covered, "--pty of gpool run"),
    row("quit-on-interrupt", '\0', Nothing, Ignored, "Ctrl-C twice cancels"),
    row("relative", 'r', Value, Covered, "inside a job, not on that many of its first nodes"),
    row("resv-ports", '\0', Maybe, Ignored, NO_NEED),
    row("send-libs", '\0', Maybe, Ignored, ONE_NODE),
    row("slurmd-debug", '\0', Value, Ignored, NO_NEED),
    row("task-epilog", '\0', Value, Ignored, "put it into the command"),
    row("task-prolog", '\0', Value, Ignored, "put it into the command"),
    row("threads", 'T', Value, Ignored, NO_STEPS),
    row("unbuffered", 'u', Nothing, Covered, "output is not buffered by line"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("wait", 'W', Value, Covered, "seconds from the first end until the others are ended"),
];

pub static SBATCH: Spoken = Spoken {
    name: "sbatch",
    about: "Submit a script as a job of gpool",
    flags: &[JOB, BATCH, MINOR],
    words: "SCRIPT [ARGUMENTS]",
};

pub static SRUN: Spoken = Spoken {
    name: "srun",
    about: "Start processes in a job of gpool, or in a new job, and show their output",
    flags: &[JOB, RUN, MINOR],
    words: "COMMAND",
};

pub static SALLOC: Spoken = Spoken {
    name: "salloc",
    about: "Allocate nodes and GPUs, and run a shell or a command whose srun uses them",
    flags: &[JOB, ALLOC, MINOR],
    words: "COMMAND",
};

/// A `#SBATCH` line.
pub static DIRECTIVE: Spoken = Spoken {
    name: "#SBATCH",
    about: "A comment at the start of a script",
    flags: &[JOB, BATCH, MINOR],
    words: "",
};
