//! The job that a step requests.

use crate::config::Step;

/// The device of NVIDIA's GPUs in `resources`.
const GPU_DEVICE: &str = "nvidia.com/gpu";

/// The resources and variables of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepRequest {
    /// GPUs; `None` means the default of the cluster.
    pub gpus: Option<String>,
    pub cpus: Option<String>,
    pub memory: Option<String>,
    /// Seconds.
    pub time: Option<String>,
    /// Variables in the order of the file, then further ones.
    pub variables: Vec<(String, String)>,
}

impl Step {
    /// The request of this step with further variables. `exported` is the number of GPUs that the
    /// shell exports as `VH_GPUS`.
    ///
    /// # Errors
    /// A variable is missing, a number is not valid, or a device is not known; the text says which.
    pub fn request(
        &self,
        extra: &[(String, String)],
        exported: Option<&str>,
    ) -> Result<StepRequest, String> {
        let mut variables: Vec<(String, String)> = Vec::new();
        for variable in &self.variables {
            let is_overridden = extra.iter().any(|(name, _)| *name == variable.name);
            match (&variable.default, is_overridden) {
                (Some(value), false) => variables.push((variable.name.clone(), value.clone())),
                (None, false) if !variable.is_optional => {
                    return Err(format!(
                        "line {}: the variable {:?} has no value; give --var {}=VALUE",
                        variable.line, variable.name, variable.name
                    ));
                }
                _ => {}
            }
        }
        let value = |all: &[(String, String)], name: &str| {
            let found = all.iter().rev().find(|(own, _)| own == name);
            found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let control = |name: &str, exported: Option<&str>| {
            let exported = || exported.map(str::to_owned).filter(|value| !value.is_empty());
            value(extra, name).or_else(exported).or_else(|| value(&variables, name))
        };
        let gpus = match control("VH_GPUS", exported) {
            Some(text) => Some(count("VH_GPUS", &text)?),
            None => self.devices()?,
        };
        let cpus = match control("VH_CPU_LIMIT", None) {
            Some(text) => Some(n_cores(&text)?),
            None => self.cpus.map(|cpus| format!("{cpus}")),
        };
        let memory = self.memory_mb.map(|megabytes| format!("{}M", megabytes.ceil()));
        let time = self.time_limit_s.map(|seconds| format!("{}s", seconds.ceil()));
        variables.extend(extra.iter().cloned());
        variables.retain(|(name, _)| name != "VH_GPUS");
        Ok(StepRequest { gpus, cpus, memory, time, variables })
    }

    /// The GPUs of `resources`.
    fn devices(&self) -> Result<Option<String>, String> {
        let mut gpus = None;
        for (name, n, line) in &self.devices {
            if name != GPU_DEVICE {
                return Err(format!(
                    "line {line}: gpool has no devices {name:?}; use {GPU_DEVICE}"
                ));
            }
            if n.fract() != 0.0 {
                return Err(format!("line {line}: {n} is not a whole number of GPUs"));
            }
            gpus = Some(format!("{n}"));
        }
        Ok(gpus)
    }
}

/// A whole number as it was written.
fn count(name: &str, text: &str) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(n) => Ok(n.to_string()),
        Err(_) => Err(format!("{name}={text:?} is not a number of GPUs; write {name}=2")),
    }
}

/// The number of cores of `4`, or of a list such as `0-3,8`.
fn n_cores(text: &str) -> Result<String, String> {
    let wrong = || format!("VH_CPU_LIMIT={text:?} is neither a number nor a list; write 4 or 0-3");
    if let Ok(n) = text.parse::<f64>()
        && n > 0.0
        && n.is_finite()
    {
        return Ok(format!("{n}"));
    }
    let mut n_cores = 0_u32;
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        let n = last.checked_sub(first).and_then(|n| n.checked_add(1)).ok_or_else(wrong)?;
        n_cores = n_cores.checked_add(n).ok_or_else(wrong)?;
    }
    Ok(n_cores.to_string())
}
