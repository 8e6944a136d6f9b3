//! Variables with the request of a job, such as SLURM_GPUS_PER_TASK. The agent sets those that
//! follow from the allocation.
//!
//! Source: the manual of sbatch, "OUTPUT ENVIRONMENT VARIABLES".

use super::values;
use crate::failure::Result;
use crate::foreign::flag::PassedFlag;
use crate::foreign::translated::Translated;

/// How the variable writes the value of the flag.
enum Form {
    Same,
    /// A number of GPUs without their model.
    Gpus,
    /// Memory in MB.
    Memory,
    /// 1.
    Set,
}

/// The flags and their variables.
const VARIABLES: &[(&str, &str, Form)] = &[
    ("cpus-per-gpu", "SLURM_CPUS_PER_GPU", Form::Same),
    ("dependency", "SLURM_JOB_DEPENDENCY", Form::Same),
    ("distribution", "SLURM_DISTRIBUTION", Form::Same),
    ("export", "SLURM_EXPORT_ENV", Form::Same),
    ("gpu-bind", "SLURM_GPU_BIND", Form::Same),
    ("gpu-freq", "SLURM_GPU_FREQ", Form::Same),
    ("gpus-per-task", "SLURM_GPUS_PER_TASK", Form::Gpus),
    ("hint", "SLURM_HINT", Form::Same),
    ("mem-per-cpu", "SLURM_MEM_PER_CPU", Form::Memory),
    ("mem-per-gpu", "SLURM_MEM_PER_GPU", Form::Memory),
    ("ntasks-per-core", "SLURM_NTASKS_PER_CORE", Form::Same),
    ("ntasks-per-gpu", "SLURM_NTASKS_PER_GPU", Form::Same),
    ("ntasks-per-node", "SLURM_NTASKS_PER_NODE", Form::Same),
    ("ntasks-per-socket", "SLURM_NTASKS_PER_SOCKET", Form::Same),
    ("overcommit", "SLURM_OVERCOMMIT", Form::Set),
    ("profile", "SLURM_PROFILE", Form::Same),
    ("qos", "SLURM_JOB_QOS", Form::Same),
    ("reservation", "SLURM_JOB_RESERVATION", Form::Same),
    ("threads-per-core", "SLURM_THREADS_PER_CORE", Form::Same),
];

/// Adds the variables for the flags.
pub fn translate(given: &[PassedFlag], all: &mut Translated) -> Result<()> {
    for (long, name, form) in VARIABLES {
        let Some(flag) = given.iter().rev().find(|given| given.flag.long == *long) else {
            continue;
        };
        let value = match form {
            Form::Same => flag.value.trim().to_owned(),
            Form::Gpus => values::gpus(flag)?.1.to_string(),
            Form::Memory => values::mebibytes(flag)?.to_string(),
            Form::Set => "1".to_owned(),
        };
        all.flag("env", &format!("{name}={value}"), flag);
    }
    Ok(())
}
