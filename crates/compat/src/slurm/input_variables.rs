//! Variables that set the flags of `sbatch`, `salloc` and `srun`.
//!
//! Source: the manuals of these commands, "INPUT ENVIRONMENT VARIABLES".

use gpool_cli::foreign::flag::{PassedFlag, Spoken, Takes};
use gpool_cli::foreign::slurm::flags::{SBATCH, SRUN};

/// The variables without the prefix `SBATCH_` or `SALLOC_`, and their flags.
const BATCH: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("ACCTG_FREQ", "acctg-freq"),
    ("ARRAY_INX", "array"),
    ("BATCH", "batch"),
    ("CLUSTERS", "clusters"),
    ("CONSTRAINT", "constraint"),
    ("CONTAINER", "container"),
    ("CORE_SPEC", "core-spec"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("DEBUG", "verbose"),
    ("DELAY_BOOT", "delay-boot"),
    ("DISTRIBUTION", "distribution"),
    ("ERROR", "error"),
    ("EXCLUSIVE", "exclusive"),
    ("EXPORT", "export"),
    ("GET_USER_ENV", "get-user-env"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GPU_BIND", "gpu-bind"),
    ("GPU_FREQ", "gpu-freq"),
    ("GRES", "gres"),
    ("GRES_FLAGS", "gres-flags"),
    ("HINT", "hint"),
    ("IGNORE_PBS", "ignore-pbs"),
    ("INPUT", "input"),
    ("JOB_NAME", "job-name"),
    ("MEM_BIND", "mem-bind"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("NETWORK", "network"),
    ("NO_KILL", "no-kill"),
    ("NO_REQUEUE", "no-requeue"),
    ("OPEN_MODE", "open-mode"),
    ("OUTPUT", "output"),
    ("OVERCOMMIT", "overcommit"),
    ("PARTITION", "partition"),
    ("POWER", "power"),
    ("PROFILE", "profile"),
    ("QOS", "qos"),
    ("REQUEUE", "requeue"),
    ("REQ_SWITCH", "switches"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("SPREAD_JOB", "spread-job"),
    ("THREADS_PER_CORE", "threads-per-core"),
    ("THREAD_SPEC", "thread-spec"),
    ("TIMELIMIT", "time"),
    ("USE_MIN_NODES", "use-min-nodes"),
    ("WAIT", "wait"),
    ("WAIT_ALL_NODES", "wait-all-nodes"),
    ("WCKEY", "wckey"),
];

/// The variables with the prefix `SLURM_` that set flags of each step.
const STEP: &[(&str, &str)] = &[
    ("KILL_BAD_EXIT", "kill-on-bad-exit"),
    ("LABELIO", "label"),
    ("MULTI_PROG", "multi-prog"),
    ("OPEN_MODE", "open-mode"),
    ("OVERLAP", "overlap"),
    ("STDERRMODE", "error"),
    ("STDINMODE", "input"),
    ("STDOUTMODE", "output"),
    ("UNBUFFEREDIO", "unbuffered"),
    ("WAIT", "wait"),
];

/// The variables with the prefix `SLURM_` that set flags of `srun` outside of a job. In a job they
/// describe it.
const NEW_JOB: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("CONSTRAINT", "constraint"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("CPUS_PER_TASK", "cpus-per-task"),
    ("DEPENDENCY", "dependency"),
    ("EXCLUSIVE", "exclusive"),
    ("EXPORT_ENV", "export"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GRES", "gres"),
    ("IMMEDIATE", "immediate"),
    ("JOB_NAME", "job-name"),
    ("JOB_NUM_NODES", "nodes"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("NNODES", "nodes"),
    ("NPROCS", "ntasks"),
    ("NTASKS", "ntasks"),
    ("NTASKS_PER_NODE", "ntasks-per-node"),
    ("PARTITION", "partition"),
    ("QOS", "qos"),
    ("REMOTE_CWD", "chdir"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("TIMELIMIT", "time"),
    ("WORKING_DIR", "chdir"),
];

/// The flags from variables with the prefix `SBATCH_` or `SALLOC_`.
pub fn of_batch(prefix: &str) -> Vec<PassedFlag> {
    BATCH.iter().filter_map(|row| flag_of(&SBATCH, prefix, row)).collect()
}

/// The flags of `srun` from variables; `is_in_job` says whether it starts a step of its own job.
pub fn of_srun(is_in_job: bool) -> Vec<PassedFlag> {
    let of_job = if is_in_job { &[] } else { NEW_JOB };
    STEP.iter().chain(of_job).filter_map(|row| flag_of(&SRUN, "SLURM_", row)).collect()
}

fn flag_of(command: &Spoken, prefix: &str, (name, long): &(&str, &str)) -> Option<PassedFlag> {
    let name = format!("{prefix}{name}");
    let value = std::env::var(&name).ok()?;
    let flag = command.rows().find(|flag| flag.long == *long)?;
    // The value of a switch does not matter, as in Slurm.
    let value = if flag.takes == Takes::Nothing { String::new() } else { value };
    Some(PassedFlag { flag, value, place: Some(format!("variable {name}")) })
}
