//! Flags of `sbatch` in the words of `gpool submit`. Reads them as Slurm does: memory in MB, time
//! in minutes, the later of two.

use super::values;
use crate::failure::Result;
use crate::shims::flag::Given;
use crate::shims::translated::{Translated, invalid};

/// Flags of Slurm that ask for GPUs, of which the last given counts.
const GPUS: [&str; 4] = ["gpus", "gpus-per-node", "gpus-per-task", "gres"];

/// Translates them.
///
/// # Errors
/// A value is not understood, or asks for what a job can't be.
pub fn translate(given: &[Given]) -> Result<Translated> {
    let mut all = Translated::of(given);
    for flag in given {
        single(flag, &mut all)?;
    }
    let last = |long: &str| given.iter().rev().find(|given| given.flag.long == long);
    let spread = spread(given, &mut all)?;
    let n_gpus = gpus(given, spread, &mut all)?;
    let per_gpu = |given: &Given, n: u64| match n_gpus {
        Some(n_gpus) => Ok(n.saturating_mul(n_gpus)),
        None => Err(invalid(given, "counts for each GPU, and no GPU is asked for").tip("--gpus 1")),
    };
    let mut n_cores = 1;
    if let Some(flag) = last("cpus-per-gpu") {
        n_cores = per_gpu(flag, values::count(flag)?)?;
        all.flag("cpus", &n_cores.to_string(), flag);
    }
    if let Some(flag) = last("cpus-per-task") {
        n_cores = values::count(flag)?;
        all.flag("cpus", &n_cores.to_string(), flag);
    }
    if let Some(flag) = last("mem-per-cpu") {
        memory(flag, values::mebibytes(flag)?.saturating_mul(n_cores), &mut all);
    }
    if let Some(flag) = last("mem-per-gpu") {
        let mebibytes = per_gpu(flag, values::mebibytes(flag)?)?;
        memory(flag, mebibytes, &mut all);
        all.warnings.push(
            "--mem-per-gpu is host memory in Slurm, and is taken so; for a GPU's own memory write \
             --gpus 40G.."
                .to_owned(),
        );
    }
    if let Some(flag) = last("mem") {
        // Of a node there, of a task here.
        memory(flag, values::mebibytes(flag)?.div_ceil(spread.each), &mut all);
    }
    Ok(all)
}

fn memory(flag: &Given, mebibytes: u64, all: &mut Translated) {
    if mebibytes == 0 {
        all.remarks.push(format!("{} 0 books no memory and limits none", flag.flag.written()));
    } else {
        all.flag("mem", &format!("{mebibytes}M"), flag);
    }
}

/// What means the same whatever else is given.
fn single(flag: &Given, all: &mut Translated) -> Result<()> {
    let value = flag.value.as_str();
    match flag.flag.long {
        "account" => all.leniently("project", value, flag),
        // Of several, whichever is free first; here a job names one.
        "partition" => {
            all.leniently("pool", value.split(',').next().unwrap_or(value), flag);
        }
        "array" => {
            all.flag("array", value, flag);
            all.is_array = true;
        }
        "begin" => all.flag("begin", &values::moment(value), flag),
        "chdir" => all.flag("cwd", value, flag),
        "comment" => all.flag("note", value, flag),
        "deadline" => all.flag("deadline", value, flag),
        "dependency" => dependency(flag, all)?,
        "error" => {
            let path = values::path(flag, &mut all.warnings);
            all.flag("stderr", &path, flag);
        }
        "export" => export(flag, all),
        "hold" => all.switch("hold", flag),
        "immediate" => all.switch("no-queue", flag),
        "input" => {
            let path = values::path(flag, &mut all.warnings);
            all.flag("stdin", &path, flag);
        }
        "job-name" => all.flag("name", value, flag),
        "nice" => all.leniently("priority", &values::priority(flag)?.to_string(), flag),
        "output" => {
            let path = values::path(flag, &mut all.warnings);
            all.flag("stdout", &path, flag);
            all.joins_output = true;
        }
        "requeue" => all.switch("requeue", flag),
        "signal" => signal(flag, all)?,
        "strict" => all.switch("strict", flag),
        "time" => {
            if let Some(seconds) = values::seconds(flag)? {
                all.flag("time", &format!("{seconds}s"), flag);
            }
        }
        "wrap" if flag.place.is_some() => all.ignored.push("--wrap".to_owned()),
        // Read with others, by whoever runs the command, or ignored.
        _ => {}
    }
    Ok(())
}

/// On how many nodes, and how many tasks on each.
#[derive(Clone, Copy)]
struct Spread {
    nodes: u64,
    each: u64,
}

fn spread(given: &[Given], all: &mut Translated) -> Result<Spread> {
    let last = |long: &str| given.iter().rev().find(|given| given.flag.long == long);
    let mut spread = Spread { nodes: 1, each: 1 };
    if let Some(flag) = last("nodes") {
        let (least, most) = values::range(flag)?;
        if least != most {
            let failure = invalid(flag, "is a number of nodes that may change");
            return Err(failure.tip(format!("--nodes {}", least.max(1))));
        }
        spread.nodes = values::count(&Given { value: least.to_string(), ..flag.clone() })?;
        if spread.nodes > 1 {
            all.flag("nodes", &spread.nodes.to_string(), flag);
        }
    }
    let count_of = |long: &str| -> Result<Option<(&Given, u64)>> {
        last(long).map(|flag| Ok((flag, values::count(flag)?))).transpose()
    };
    let (per_node, total) = (count_of("ntasks-per-node")?, count_of("ntasks")?);
    let each = match (per_node, total) {
        (Some((flag, each)), Some((_, total))) if total == each.saturating_mul(spread.nodes) => {
            Some((flag, each))
        }
        (Some((_, each)), Some((flag, _))) => {
            let failure = invalid(flag, "is not what the nodes have together");
            return Err(failure.tip(format!("--ntasks {}", each.saturating_mul(spread.nodes))));
        }
        (Some(per_node), None) => Some(per_node),
        (None, Some((flag, total))) if last("nodes").is_some() => {
            if !total.is_multiple_of(spread.nodes) {
                let failure = invalid(flag, "can't be spread evenly over the nodes");
                return Err(failure.tip("--ntasks-per-node 2"));
            }
            Some((flag, total / spread.nodes))
        }
        (None, Some((flag, total))) if total > 1 => {
            let failure = invalid(flag, "does not say on which nodes the tasks run");
            return Err(failure
                .tip(format!("--nodes 1 --ntasks-per-node {total}"))
                .tip("--ntasks 1, and in the script: torchrun --nproc-per-node N …")
                .tip(format!("in place of it `# GPOOL --tasks {total}`, and --gpus of each task"))
                .tip("--ntasks 1 --cpus-per-task N, if N cores are meant"));
        }
        (None, _) => None,
    };
    if let Some((flag, each)) = each.filter(|(_, each)| *each > 1) {
        spread.each = each;
        all.flag("tasks-per-node", &each.to_string(), flag);
        let script = "every task runs the whole script here, where Slurm runs it once".to_owned();
        all.remarks.push(script);
    } else if spread.nodes > 1 {
        let script = "the script runs on each node here, where Slurm runs it on the first";
        all.remarks.push(script.to_owned());
    }
    Ok(spread)
}

/// How many GPUs are asked for each task, if any are.
fn gpus(given: &[Given], spread: Spread, all: &mut Translated) -> Result<Option<u64>> {
    let mut asked: Option<(String, u64, &Given)> = None;
    for flag in given.iter().filter(|given| GPUS.contains(&given.flag.long)) {
        let read = match flag.flag.long {
            "gres" => values::gres(flag, &mut all.ignored)?,
            _ => Some(values::gpus(flag)?),
        };
        let Some((text, n)) = read else { continue };
        if let Some((earlier, _, by)) = &asked
            && *earlier != text
            && by.flag != flag.flag
        {
            let (one, other) = (by.flag.written(), flag.flag.written());
            let what = format!("{one} asks for {earlier} and {other} for {text}");
            all.contradictions.push(format!("{what}: the later is taken"));
        }
        asked = Some((text, n, flag));
    }
    let Some((text, n, flag)) = asked else { return Ok(None) };
    let n_tasks = match flag.flag.long {
        "gpus-per-task" => 1,
        "gpus" => spread.nodes.saturating_mul(spread.each),
        _ => spread.each,
    };
    if !n.is_multiple_of(n_tasks) {
        return Err(invalid(flag, "can't be spread evenly over the tasks")
            .tip("--gpus-per-task 1, for each of them"));
    }
    let n = n / n_tasks;
    let text = match text.rsplit_once(':') {
        Some((model, _)) => format!("{model}:{n}"),
        None => n.to_string(),
    };
    all.flag("gpus", &text, flag);
    Ok((n > 0).then_some(n))
}

/// `ALL`, `NONE`, or names with and without values.
fn export(flag: &Given, all: &mut Translated) {
    let parts: Vec<&str> =
        flag.value.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let is = |part: &str, word: &str| part.eq_ignore_ascii_case(word);
    if !parts.iter().any(|part| is(part, "ALL")) {
        all.switch("clean-env", flag);
    }
    let words = ["ALL", "NONE", "NIL"];
    for part in parts.into_iter().filter(|part| !words.iter().any(|word| is(part, word))) {
        all.flag("env", part, flag);
    }
}

/// `B:USR1@90`: a signal so many seconds before the limit.
fn signal(flag: &Given, all: &mut Translated) -> Result<()> {
    let (name, seconds) = flag.value.split_once('@').unwrap_or((&flag.value, "60"));
    let (to, name) = match name.rsplit_once(':') {
        Some((to, name)) => (to, name),
        None => ("", name),
    };
    if seconds.is_empty() || !seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(flag, "is not SIGNAL@SECONDS").tip("--signal=USR1@90"));
    }
    if name.is_empty() || !to.chars().all(|c| matches!(c, 'B' | 'R')) {
        return Err(invalid(flag, "names no signal").tip("--signal=USR1@90"));
    }
    if to.contains('B') {
        all.remarks.push(
            "--signal: all processes of the job get the signal, not its shell alone".to_owned(),
        );
    }
    all.flag("signal-before", &format!("{name}@{seconds}s"), flag);
    Ok(())
}

/// `afterok:1:2,afterany:3`, all of them; with `?` between them, the first.
fn dependency(flag: &Given, all: &mut Translated) -> Result<()> {
    let is_any = flag.value.contains('?');
    if is_any && flag.value.contains(',') {
        let failure = invalid(flag, "has both , (all of them) and ? (one of them)");
        return Err(failure.tip("--dependency=afterok:1:2 or --dependency=afterok:1?afterok:2"));
    }
    let mut found = Vec::new();
    for part in flag.value.split([',', '?']) {
        let (kind, ids) = part.split_once(':').unwrap_or((part, ""));
        let kind = match kind.to_ascii_lowercase().as_str() {
            "singleton" if ids.is_empty() => {
                all.singleton = true;
                continue;
            }
            "afterok" => "ok",
            "afternotok" => "fail",
            "afterany" => "end",
            "after" => {
                let failure = invalid(flag, "waits for a job to start, which gpool does not");
                return Err(failure.tip("--dependency=afterany:ID waits for its end"));
            }
            "aftercorr" if !is_any => "each",
            "aftercorr" => {
                let failure = invalid(flag, "has aftercorr among several of which one is enough");
                return Err(failure.tip("--dependency=aftercorr:ID,afterok:ID waits for both"));
            }
            _ => {
                let failure = invalid(flag, "is no dependency");
                return Err(failure.tip("--dependency=afterok:17:18,afterany:19"));
            }
        };
        if ids.is_empty() {
            return Err(invalid(flag, "names no job").tip("--dependency=afterok:17"));
        }
        found.extend(ids.split(':').map(|id| format!("{kind}:{id}")));
    }
    if !found.is_empty() {
        let flag_name = if is_any { "after-one" } else { "after" };
        all.flag(flag_name, &found.join(","), flag);
    }
    Ok(())
}
