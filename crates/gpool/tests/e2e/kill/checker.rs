//! Checks the promises of gpool on a history: no acknowledged job is lost, none runs twice, every
//! end is correct, no job number or device is given twice, the order is kept, each extension of a
//! limit counts once, every requested message is sent, and nothing is left behind. Shares no code
//! with the code under test.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Asked, Ended, Fate, History, Line, Noted, Want};

/// All violations, one a line.
pub fn violations(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    nothing_lost(history, &mut found);
    each_ended_right(history, &mut found);
    none_ran_twice(history, &mut found);
    no_device_twice_by_journal(history, &mut found);
    no_device_twice_by_archive(history, &mut found);
    no_device_twice_by_programs(history, &mut found);
    order_kept(history, &mut found);
    limits_kept(history, &mut found);
    all_told(history, &mut found);
    found.extend(history.left.iter().map(|what| format!("left behind: {what}")));
    found.extend(history.unsound.iter().map(|what| format!("the store is not sound: {what}")));
    found
}

fn ends_of(history: &History) -> BTreeMap<u64, &Ended> {
    history.ended.iter().map(|ended| (ended.id, ended)).collect()
}

fn nothing_lost(history: &History, found: &mut Vec<String>) {
    let mut asked = BTreeMap::new();
    for it in &history.asked {
        if let Some(other) = asked.insert(it.id, &it.name) {
            found.push(format!("id {} was given to {other} and to {}", it.id, it.name));
        }
    }
    let mut ended = BTreeMap::new();
    for it in &history.ended {
        if ended.insert(it.id, &it.name).is_some() {
            found.push(format!("job {} ended twice", it.id));
        }
    }
    for id in &history.living {
        found.push(format!("job {id} lives on in the store"));
    }
    for (id, name) in &asked {
        match ended.get(id) {
            None => found.push(format!("job {id} ({name}) was acknowledged and is lost")),
            Some(other) if other != name => {
                found.push(format!("id {id} was given to {name} and is {other}"));
            }
            Some(_) => {}
        }
    }
    for (id, name) in ended.iter().filter(|(id, _)| !asked.contains_key(id)) {
        found.push(format!("job {id} ({name}) is there and nobody was told"));
    }
}

fn each_ended_right(history: &History, found: &mut Vec<String>) {
    let ends = ends_of(history);
    for asked in &history.asked {
        let Some(ended) = ends.get(&asked.id) else { continue };
        let as_wanted = as_wanted(asked, ended, &ends);
        let lost = ended.state == "lost" && ended.cause.as_deref() == Some("shepherd_ended");
        let not_started =
            ended.state == "failed" && ended.cause.as_deref() == Some("launch_failed");
        let is_right = match history.killed.get(&asked.id) {
            None | Some(Fate::Kept) => as_wanted,
            Some(Fate::Lost) => lost,
            // Another shepherd, of an earlier server, may have launched it first.
            Some(Fate::NotStarted) => not_started || as_wanted,
            Some(Fate::Any) => as_wanted || lost || not_started,
        };
        if !is_right {
            let fate = history.killed.get(&asked.id);
            let why = &ended.why;
            found
                .push(format!("ended wrongly (shepherd: {fate:?}): {asked:?} is {ended:?}: {why}"));
        }
        let wrote = history.outputs.get(&asked.id).map(String::as_str).unwrap_or_default();
        let right = format!("out of {}\n", asked.name);
        if code_of_its_own(ended).is_some() && wrote != right {
            found.push(format!("job {} wrote {wrote:?} and not {right:?}", asked.id));
        }
    }
}

/// The exit code of a program that ended by itself and noted its end.
fn code_of_its_own(ended: &Ended) -> Option<i32> {
    let by_itself = matches!(ended.state.as_str(), "succeeded" | "failed");
    // Higher codes are signals.
    ended.exit.filter(|code| by_itself && *code < 128)
}

fn as_wanted(asked: &Asked, ended: &Ended, ends: &BTreeMap<u64, &Ended>) -> bool {
    let by_itself = |code: i32| {
        let state = if code == 0 { "succeeded" } else { "failed" };
        ended.state == state && ended.exit == Some(code) && ended.cause.is_none()
    };
    match &asked.want {
        Want::Exit(codes) => codes.iter().any(|code| by_itself(*code)),
        Want::Cancelled => ended.state == "cancelled",
        Want::CancelledOr(code) => ended.state == "cancelled" || by_itself(*code),
        Want::TimedOut => ended.state == "timed_out",
        Want::After(other, code) => match ends.get(other) {
            Some(other) if other.state == "succeeded" => by_itself(*code),
            _ => ended.cause.as_deref() == Some("dependency_failed"),
        },
    }
}

/// The lines that each job's programs wrote.
#[derive(Default)]
struct Ran {
    /// Attempt and devices of each start.
    starts: Vec<(u32, Vec<String>)>,
    /// Attempt and code of each end.
    ends: Vec<(u32, i32)>,
}

fn none_ran_twice(history: &History, found: &mut Vec<String>) {
    let mut runs: BTreeMap<u64, Ran> = BTreeMap::new();
    for line in &history.trace {
        match line {
            Line::Start { id, attempt, devices, .. } => {
                runs.entry(*id).or_default().starts.push((*attempt, devices.clone()));
            }
            Line::End { id, attempt, code, .. } => {
                runs.entry(*id).or_default().ends.push((*attempt, *code));
            }
            Line::Shared { .. } => {}
        }
    }
    let ends = ends_of(history);
    for (id, ran) in &runs {
        let attempts: BTreeSet<u32> = ran.starts.iter().map(|(attempt, _)| *attempt).collect();
        if attempts.len() < ran.starts.len() {
            found.push(format!("job {id} ran twice: {:?}", ran.starts));
        }
        let Some(ended) = ends.get(id) else {
            found.push(format!("job {id} ran and is not there"));
            continue;
        };
        if attempts.iter().any(|attempt| *attempt > ended.attempt) {
            found.push(format!("job {id} ran in an attempt that it never had: {attempts:?}"));
        }
        if matches!(ended.cause.as_deref(), Some("launch_failed" | "dependency_failed")) {
            found.push(format!("job {id} ran although it is said that it did not: {ended:?}"));
        }
        if let Some((_, devices)) = ran.starts.iter().find(|it| it.0 == ended.attempt)
            && *devices != ended.devices
        {
            found.push(format!("job {id} was given {devices:?}, and not {:?}", ended.devices));
        }
    }
    for ended in &history.ended {
        let Some(code) = code_of_its_own(ended) else { continue };
        let ran = runs.get(&ended.id).map(|ran| (ran.starts.len(), &ran.ends[..]));
        if ran != Some((1, &[(ended.attempt, code)][..])) {
            found.push(format!("job {} wrote of its run {ran:?}, and is {ended:?}", ended.id));
        }
    }
}

/// By the journal: no device is allocated again between the plan that allocates it and the agent's
/// report of the job's end.
fn no_device_twice_by_journal(history: &History, found: &mut Vec<String>) {
    let mut held: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
    let ends = ends_of(history);
    for noted in &history.journal {
        match noted {
            Noted::Start { id, attempt, node, devices } => {
                for device in devices {
                    if let Some((_, other)) = held.insert(device, (node, *id)) {
                        found.push(format!("{device} was given to {id} while {other} held it"));
                    }
                }
                let end = ends.get(id).filter(|end| end.attempt == *attempt);
                if end.is_some_and(|end| end.devices != *devices && !end.devices.is_empty()) {
                    found.push(format!("job {id} was given {devices:?}, and not {end:?}"));
                }
            }
            Noted::Over { id } => held.retain(|_, (_, holder)| holder != id),
            // A job that is missing was never launched.
            Noted::Has { node, ids } => {
                held.retain(|_, (of, holder)| of != node || ids.contains(holder));
            }
        }
    }
}

/// By the archive: no two jobs ran on one device at the same time, by the times that shepherds
/// noted.
fn no_device_twice_by_archive(history: &History, found: &mut Vec<String>) {
    let mut runs: BTreeMap<&str, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for ended in &history.ended {
        for device in &ended.devices {
            if let Some(started) = ended.started_ms {
                runs.entry(device).or_default().push((started, ended.ended_ms, ended.id));
            }
        }
    }
    for (device, runs) in &mut runs {
        runs.sort_unstable();
        for pair in runs.windows(2) {
            let ((_, ended, first), (started, _, second)) = (pair[0], pair[1]);
            if started < ended {
                found.push(format!("{device}: {second} started before {first} had ended"));
            }
        }
    }
}

/// By the programs: each locks its devices while one of its processes lives, and notes its start
/// and its end.
fn no_device_twice_by_programs(history: &History, found: &mut Vec<String>) {
    let ended: BTreeSet<u64> = (history.trace.iter())
        .filter_map(|line| match line {
            Line::End { id, .. } => Some(*id),
            Line::Start { .. } | Line::Shared { .. } => None,
        })
        .collect();
    let mut holders: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in &history.trace {
        match line {
            Line::Shared { id, device } => {
                found.push(format!("{device} was in use when {id} started on it"));
            }
            Line::Start { id, at, devices, .. } => {
                for device in devices {
                    if let Some((other, since)) = holders.insert(device, (*id, *at)) {
                        found.push(format!("{device}: {id} at {at}, and {other} since {since}"));
                    }
                }
                // A killed program does not note its end; the lock shows that it has ended.
                if !ended.contains(id) {
                    holders.retain(|_, (holder, _)| holder != id);
                }
            }
            Line::End { id, .. } => holders.retain(|_, (holder, _)| holder != id),
        }
    }
}

/// Among a user's jobs that only age distinguishes, the older is placed first.
fn order_kept(history: &History, found: &mut Vec<String>) {
    let in_order: BTreeSet<u64> = (history.asked.iter())
        .filter(|asked| asked.in_order && asked.n_gpus == 1)
        .map(|asked| asked.id)
        .collect();
    let ends = ends_of(history);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    // A job whose device was found in use is placed again, before all others.
    let mut placed = BTreeSet::new();
    for noted in &history.journal {
        let Noted::Start { id, .. } = noted else { continue };
        let is_first = placed.insert(*id);
        let (true, Some(ended)) = (is_first && in_order.contains(id), ends.get(id)) else {
            continue;
        };
        match last.insert(&ended.user, *id) {
            Some(before) if before > *id => found.push(format!("{id} was placed after {before}")),
            _ => {}
        }
    }
}

/// A limit is extended once for each successful request, and its shepherd notes each extension
/// once.
fn limits_kept(history: &History, found: &mut Vec<String>) {
    let ends = ends_of(history);
    for it in &history.extended {
        let Some(limit) = ends.get(&it.id).and_then(|ended| ended.limit_ms) else { continue };
        let allowed: Vec<u64> = (0..=it.n_tried).map(|n| it.before + n * it.by).collect();
        let said = it.before + it.n_told * it.by;
        if limit < said || !allowed.contains(&limit) {
            found.push(format!("job {} has a limit of {limit} ms: {it:?}", it.id));
        }
        let noted = history.limits.get(&it.id).map(Vec::as_slice).unwrap_or_default();
        if noted.windows(2).any(|pair| pair[0] >= pair[1] || pair[0].1 == pair[1].1) {
            found.push(format!("job {} was given a limit twice: {noted:?}", it.id));
        }
        if noted.iter().any(|(_, noted)| *noted > limit || !allowed.contains(noted)) {
            found.push(format!("job {} has a limit of {limit} ms, and not {noted:?}", it.id));
        }
    }
}

/// For each end with a notification there is one message, which arrived at least once.
fn all_told(history: &History, found: &mut Vec<String>) {
    let mut messages: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for told in &history.told {
        messages.entry(told.job).or_default().insert(&told.message);
    }
    for asked in &history.asked {
        let n_messages = messages.get(&asked.id).map_or(0, BTreeSet::len);
        if n_messages != usize::from(asked.is_told) {
            let id = asked.id;
            found.push(format!("of the end of {id} there are {n_messages} messages: {asked:?}"));
        }
    }
}
