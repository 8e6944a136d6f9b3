//! Translates flags of `sbatch` into flags of `gpool submit`. Values have Slurm's meaning: memory
//! in MB, time in minutes, and the later of two flags wins.

use super::moment::moment;
use super::{node_constraints, shape, values, variables};
use crate::failure::Result;
use crate::foreign::flag::{PassedFlag, invalid};
use crate::foreign::mail;
use crate::foreign::translated::Translated;

/// Translates the flags.
pub fn translate(given: &[PassedFlag]) -> Result<Translated> {
    translate_over(given, &[])
}

/// Translates flags that override the flags `below`. Flags for size and layout depend on each
/// other, so if `given` has any, those of `below` are considered too.
pub fn translate_over(given: &[PassedFlag], below: &[PassedFlag]) -> Result<Translated> {
    let mut all = Translated::of(given);
    let (given, below) = (&shape::with_tres(given)?[..], &shape::with_tres(below)?[..]);
    for (at, flag) in given.iter().enumerate() {
        if !is_replaced(flag, &given[at + 1..]) {
            single(flag, &mut all)?;
        }
    }
    node_constraints::translate(given, &mut all)?;
    let has_shape = given.iter().any(shape::is_of_shape);
    let below = below.iter().filter(|given| has_shape && shape::is_of_shape(given));
    let joined: Vec<PassedFlag> = below.chain(given).cloned().collect();
    shape::translate(&joined, &mut all)?;
    variables::translate(given, &mut all)?;
    let last = |long: &str| given.iter().rev().find(|given| given.flag.long == long);
    if let Some(flag) = last("mail-type") {
        all.mail.on(mail::SLURM, flag, &mut all.ignored);
    }
    last("mail-user").map_or(Ok(()), |flag| all.mail.to(flag))?;
    Ok(all)
}

/// The flags of `below` that no flag of `above` replaces. Flags for size and layout stay, since
/// they depend on each other, and kinds of mail add up.
#[must_use]
pub fn without_replaced(below: Vec<PassedFlag>, above: &[PassedFlag]) -> Vec<PassedFlag> {
    let stays = |given: &PassedFlag| shape::is_of_shape(given) || !is_replaced(given, above);
    below.into_iter().filter(stays).collect()
}

/// Whether a later flag replaces this one.
fn is_replaced(given: &PassedFlag, later: &[PassedFlag]) -> bool {
    let effect = |flag: &'static str| if flag == "no-requeue" { "requeue" } else { flag };
    let long = effect(given.flag.long);
    long != "mail-type" && later.iter().any(|other| effect(other.flag.long) == long)
}

/// Translates a flag that does not depend on others.
fn single(flag: &PassedFlag, all: &mut Translated) -> Result<()> {
    let value = flag.value.as_str();
    match flag.flag.long {
        "account" => all.leniently("project", value, flag),
        // Slurm takes the first free one of several partitions; a gpool job has one pool.
        "partition" => {
            let pools = value.split(',').map(str::trim).filter(|pool| !pool.is_empty());
            all.pools = pools.map(str::to_owned).collect();
            all.leniently("pool", all.pools.first().cloned().as_deref().unwrap_or(value), flag);
        }
        "array" => {
            all.flag("array", value, flag);
            all.is_array = true;
        }
        "begin" => all.flag("begin", &moment(value), flag),
        "chdir" => all.flag("cwd", value, flag),
        "comment" => all.flag("note", value, flag),
        "deadline" => all.flag("deadline", &moment(value), flag),
        "dependency" => dependency(flag, all)?,
        "error" => {
            let path = values::path(flag, &mut all.warnings);
            all.flag("stderr", &path, flag);
        }
        "export" => export(flag, all)?,
        "hold" => all.switch("hold", flag),
        "immediate" => all.switch("no-queue", flag),
        "input" => {
            let path = values::path(flag, &mut all.warnings);
            all.flag("stdin", &path, flag);
        }
        "job-name" => all.flag("name", value, flag),
        "open-mode" => all.flag("open-mode", values::open_mode(flag)?, flag),
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
        // Translated elsewhere, read by the command itself, or ignored.
        _ => {}
    }
    Ok(())
}

/// Translates `ALL`, `NONE`, or names with and without values.
fn export(flag: &PassedFlag, all: &mut Translated) -> Result<()> {
    let parts = values::quoted_list(flag)?;
    let is = |part: &str, word: &str| part.eq_ignore_ascii_case(word);
    if !parts.iter().any(|part| is(part, "ALL")) {
        all.switch("clean-env", flag);
    }
    let words = ["ALL", "NONE", "NIL"];
    for part in parts.iter().filter(|part| !words.iter().any(|word| is(part, word))) {
        all.flag("env", part, flag);
    }
    Ok(())
}

/// Translates `B:USR1@90`: a signal 90 seconds before the time limit.
fn signal(flag: &PassedFlag, all: &mut Translated) -> Result<()> {
    let (name, seconds) = flag.value.split_once('@').unwrap_or((&flag.value, "60"));
    let (to, name) = match name.rsplit_once(':') {
        Some((to, name)) => (to, name),
        None => ("", name),
    };
    if seconds.is_empty() || !seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(flag, "is not SIGNAL@SECONDS").tip("--signal=USR1@90"));
    }
    if name.is_empty() || !to.chars().all(|c| matches!(c, 'B' | 'R')) {
        return Err(invalid(flag, "has no signal").tip("--signal=USR1@90"));
    }
    // B signals the script only; otherwise its child processes get the signal.
    let to = if to.contains('B') { 'B' } else { 'S' };
    all.signals = true;
    all.flag("signal-before", &format!("{to}:{name}@{seconds}s"), flag);
    Ok(())
}

/// Translates `afterok:1:2,afterany:3`: all of them with `,` and the first of them with `?`.
fn dependency(flag: &PassedFlag, all: &mut Translated) -> Result<()> {
    let is_any = flag.value.contains('?');
    if is_any && flag.value.contains(',') {
        let failure = invalid(flag, "has both , (all) and ? (any)");
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
            "after" if !is_any => "start",
            "after" => {
                let failure = invalid(flag, "has after in a list of alternatives (?)");
                return Err(failure.tip("--dependency=after:ID,afterok:ID waits for both"));
            }
            "aftercorr" if !is_any => "each",
            "aftercorr" => {
                let failure = invalid(flag, "has aftercorr in a list of alternatives (?)");
                return Err(failure.tip("--dependency=aftercorr:ID,afterok:ID waits for both"));
            }
            _ => {
                let failure = invalid(flag, "is not a dependency");
                return Err(failure.tip("--dependency=afterok:17:18,afterany:19"));
            }
        };
        if ids.is_empty() {
            return Err(invalid(flag, "has no job").tip("--dependency=afterok:17"));
        }
        for id in ids.split(':') {
            let (id, minutes) = id.split_once('+').unwrap_or((id, ""));
            match (minutes, kind) {
                ("", _) => found.push(format!("{kind}:{id}")),
                (minutes, "start") if minutes.parse::<u32>().is_ok() => {
                    found.push(format!("{kind}:{id}+{minutes}m"));
                }
                (_, "start") => {
                    return Err(invalid(flag, "has a delay that is not a number of minutes")
                        .tip("--dependency=after:17+5"));
                }
                _ => {
                    return Err(invalid(flag, "has a delay, which only after takes")
                        .tip("--dependency=after:17+5"));
                }
            }
        }
    }
    if !found.is_empty() {
        let flag_name = if is_any { "after-one" } else { "after" };
        all.flag(flag_name, &found.join(","), flag);
    }
    Ok(())
}
