//! `scontrol update`: `JobId=17 TimeLimit=2:00:00`, `NodeName=lab1 State=DRAIN Reason=disk`.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::slurm::values::time;
use gpool_cli::session::Session;

use super::{hostlist, select};
use crate::shim::gpool;

/// What of a job can change, and as which flag of `gpool edit`.
const EDITS: [(&[&str], &str); 17] = [
    (&["account"], "project"),
    (&["arraytaskthrottle"], "max-parallel"),
    (&["comment"], "note"),
    (&["deadline"], "deadline"),
    (&["excnodelist"], "not-node"),
    (&["features", "clusterfeatures"], "where"),
    (&["mincpusnode", "numcpus", "reqcpus", "cpuspertask"], "cpus"),
    (&["minmemorynode", "minmemory"], "mem"),
    (&["jobname", "name"], "name"),
    (&["priority"], "priority"),
    (&["reqnodelist", "nodelist"], "node"),
    (&["starttime", "eligibletime"], "begin"),
    (&["stderr"], "stderr"),
    (&["stdin"], "stdin"),
    (&["stdout"], "stdout"),
    (&["workdir"], "cwd"),
    (&["gres", "trespernode", "trespertask"], "gpus"),
];

/// Keys that change nothing here, as in a submission.
const IGNORED: [&str; 6] = ["qos", "contiguous", "licenses", "mailtype", "wckey", "wait4switch"];

/// Keys that no job can change, with the way to do it.
const FIXED: [(&[&str], &str); 3] = [
    (&["partition"], "cancel the job, and submit it with --partition"),
    (&["numnodes", "numtasks", "minnodes"], "cancel the job, and submit it with --nodes"),
    (&["arraytaskid"], "cancel the array, and submit it with --array"),
];

/// Runs it.
pub fn run(words: &[String], session: &Session) -> Result {
    let mut pairs = Vec::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::new(
                errors::USAGE,
                format!("scontrol update: {word:?} is not KEY=VALUE"),
            )
            .tip("scontrol update JobId=17 TimeLimit=2:00:00"));
        };
        pairs.push((key.trim_end_matches(['+', '-']), value));
    }
    let of = |names: &[&str]| {
        pairs.iter().position(|(key, _)| names.iter().any(|name| key.eq_ignore_ascii_case(name)))
    };
    if let Some(at) = of(&["nodename"]) {
        let (_, node) = pairs.remove(at);
        return node_changes(node, &pairs, session);
    }
    let Some(at) = of(&["jobid", "job"]) else {
        return Err(Failure::new(errors::USAGE, "scontrol update: the job or node is missing")
            .tip("scontrol update JobId=17 TimeLimit=2:00:00")
            .tip("gpool pool, gpool reserve edit and gpool project edit change the rest"));
    };
    let (_, job) = pairs.remove(at);
    let ids = select::ids(std::iter::once(job.to_owned()))?;
    job_changes(&ids, &pairs, session)
}

fn job_changes(ids: &[String], pairs: &[(&str, &str)], session: &Session) -> Result {
    let mut edit = Vec::new();
    let (mut extend, mut is_ignored) = (None, false);
    for (key, value) in pairs {
        let known = key.to_ascii_lowercase();
        if let Some((_, way)) = FIXED.iter().find(|(names, _)| names.contains(&known.as_str())) {
            return Err(fixed(key, way));
        }
        match known.as_str() {
            // Each label of Slurm is a rule here.
            "features" | "clusterfeatures" => {
                edit.extend(value.split('&').map(|rule| format!("--where={rule}")));
            }
            "timelimit" => extend = Some(limit(value)?),
            "nice" => edit.push(format!("--priority={}", -number(key, value)?)),
            "requeue" => edit.push(match *value {
                "0" => "--no-requeue".to_owned(),
                _ => "--requeue".to_owned(),
            }),
            "dependency" => edit.extend(dependency(value)?),
            "gres" | "trespernode" | "trespertask" => {
                let gpus = value.split(',').next().unwrap_or(value);
                let gpus = gpus.trim_start_matches("gres/").trim_start_matches("gres:");
                let gpus = gpus.trim_start_matches("gpu").trim_start_matches([':', '=']);
                edit.push(format!("--gpus={}", if gpus.is_empty() { "1" } else { gpus }));
            }
            "minmemorynode" | "minmemory" => edit.push(format!("--mem={}", memory(value))),
            "starttime" | "eligibletime" => {
                edit.push(format!("--begin={}", gpool_cli::foreign::slurm::moment::moment(value)));
            }
            known if IGNORED.contains(&known) => {
                session.screen.warn(&format!("ignored: {key} (gpool help compat)"));
                is_ignored = true;
            }
            known => match EDITS.iter().find(|(names, _)| names.contains(&known)) {
                Some((_, flag)) => edit.push(format!("--{flag}={value}")),
                None => return Err(no_such_key(key)),
            },
        }
    }
    if edit.is_empty() && extend.is_none() && is_ignored {
        return Ok(Exit::OK);
    }
    if edit.is_empty() && extend.is_none() {
        return Err(Failure::new(errors::USAGE, "scontrol update: there is nothing to change")
            .tip("scontrol update JobId=17 TimeLimit=2:00:00"));
    }
    let with = |verb: &str, flags: Vec<String>| {
        let words = std::iter::once(verb.to_owned()).chain(ids.iter().cloned()).chain(flags);
        gpool(&words.collect::<Vec<_>>(), session)
    };
    // Limits of jobs that run change by another verb.
    let done = extend.map(|flag| with("extend", vec![flag])).transpose()?;
    match done {
        Some(exit) if edit.is_empty() => Ok(exit),
        _ => with("edit", edit),
    }
}

fn fixed(key: &str, way: &str) -> Failure {
    let what = format!("scontrol of gpool can't change {key} of a job");
    Failure::new(errors::NO_SUCH_FLAG, what).tip(way)
}

fn no_such_key(key: &str) -> Failure {
    let known: Vec<&str> = EDITS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    Failure::new(errors::NO_SUCH_FLAG, format!("scontrol of gpool can't change {key} of a job"))
        .why(format!("it can change timelimit, nice, dependency, requeue, {}", known.join(", ")))
        .tip("gpool edit --help lists the rest")
}

/// The limit, or by how much it changes.
pub fn limit(value: &str) -> Result<String> {
    let bad = || {
        let what = format!("scontrol update: TimeLimit={value} is not a time limit");
        Failure::new(errors::INVALID, what).tip("TimeLimit=2:00:00, TimeLimit=+30 (minutes)")
    };
    if ["unlimited", "infinite", "-1"].contains(&value.to_ascii_lowercase().as_str()) {
        return Ok("--to=none".to_owned());
    }
    let (flag, sign, length) = match value.split_at_checked(1) {
        Some(("+", length)) => ("by", "+", length),
        Some(("-", length)) => ("by", "-", length),
        _ => ("to", "", value),
    };
    let seconds = time(length).filter(|seconds| *seconds > 0).ok_or_else(bad)?;
    Ok(format!("--{flag}={sign}{seconds}s"))
}

fn number(key: &str, value: &str) -> Result<i64> {
    value.parse().map_err(|_| {
        let what = format!("scontrol update: {key}={value} is not a number");
        Failure::new(errors::INVALID, what).tip(format!("{key}=10"))
    })
}

/// A bare number is mebibytes.
fn memory(value: &str) -> String {
    let is_bare = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare { format!("{value}M") } else { value.to_owned() }
}

fn dependency(value: &str) -> Result<Option<String>> {
    if value.is_empty() {
        return Ok(Some("--after=none".to_owned()));
    }
    let mut all = Vec::new();
    for part in value.split(',') {
        let (kind, ids) = part.split_once(':').unwrap_or((part, ""));
        let kind = match kind {
            "afterok" => "ok",
            "afternotok" => "fail",
            "afterany" => "end",
            _ => {
                let what = format!("scontrol update: Dependency={value} is not valid");
                return Err(Failure::new(errors::INVALID, what)
                    .tip("Dependency=afterok:17,afterany:18, or Dependency= for none"));
            }
        };
        all.extend(ids.split(':').map(|id| format!("{kind}:{id}")));
    }
    Ok(Some(format!("--after={}", all.join(","))))
}

fn node_changes(node: &str, pairs: &[(&str, &str)], session: &Session) -> Result {
    let value = |wanted: &str| {
        pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let known = ["state", "reason"];
    if let Some((key, _)) =
        pairs.iter().find(|(key, _)| !known.contains(&&*key.to_ascii_lowercase()))
    {
        let what = format!("scontrol of gpool can't change {key} of a node");
        return Err(Failure::new(errors::NO_SUCH_FLAG, what).tip("gpool pool move NODE POOL"));
    }
    let nodes = hostlist::parts(node).into_iter().map(str::to_owned);
    let state = value("state").unwrap_or_default().to_ascii_lowercase();
    let words: Vec<String> = match state.as_str() {
        "drain" => {
            let Some(reason) = value("reason") else {
                return Err(Failure::new(errors::USAGE, "scontrol update: Reason= is missing")
                    .tip(format!("scontrol update NodeName={node} State=DRAIN Reason=disk")));
            };
            let flags = [format!("--reason={reason}"), "--yes".to_owned()];
            std::iter::once("drain".to_owned()).chain(nodes).chain(flags).collect()
        }
        "resume" | "idle" | "undrain" => {
            std::iter::once("undrain".to_owned()).chain(nodes).collect()
        }
        _ => {
            let what = format!("scontrol of gpool can't set State={state} of a node");
            return Err(Failure::new(errors::INVALID, what)
                .tip("State=DRAIN Reason=…, or State=RESUME")
                .tip(format!("gpool drain {node} --cancel --reason …   (ends its jobs)")));
        }
    };
    gpool(&words, session)
}
