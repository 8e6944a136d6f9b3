//! Smaller commands of `scontrol`: the server, steps, reservations, processes and scripts.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_model::job::JobState;
use gpool_wire::{Job, Problem, Reservation};

use super::cells::{self, CLUSTER, SlurmJobRow};
use super::hostlist;
use super::record::{self, ScontrolRecord};
use super::select;
use super::select::selected;
use super::steps::{self, Step};
use super::times::long_time;
use crate::shim::{SLURM, gpool, print};

/// Prints whether the server answers.
pub fn ping(session: &Session) -> Result {
    let client = session.client()?;
    let host = match client.address() {
        Some(address) => address.host().to_owned(),
        None => this_host(),
    };
    let is_up = client.ready().is_ok();
    let state = if is_up { "UP" } else { "DOWN" };
    session.screen.data(&format!("Slurmctld(primary) at {} is {state}\n", safe(&host)))?;
    Ok(if is_up { Exit::OK } else { Exit(1) })
}

fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Settings of Slurm with their values here.
const CONFIG: [(&str, &str); 24] = [
    ("AccountingStorageEnforce", "associations,limits"),
    ("AccountingStorageTRES", "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu"),
    ("AccountingStorageType", "accounting_storage/slurmdbd"),
    ("AuthType", "auth/none"),
    ("EnforcePartLimits", "NO"),
    ("FirstJobId", "1"),
    ("GresTypes", "gpu"),
    ("JobAcctGatherType", "jobacct_gather/cgroup"),
    ("JobRequeue", "0"),
    ("KillOnBadExit", "0"),
    ("KillWait", "30 sec"),
    ("Licenses", "(null)"),
    ("MaxArraySize", "1000001"),
    ("MaxJobCount", "1000000"),
    ("MaxStepCount", "40000"),
    ("MaxTasksPerNode", "512"),
    ("MinJobAge", "300 sec"),
    ("PreemptMode", "REQUEUE"),
    ("PriorityType", "priority/multifactor"),
    ("PrivateData", "none"),
    ("ProctrackType", "proctrack/cgroup"),
    ("SchedulerType", "sched/backfill"),
    ("SelectType", "select/cons_tres"),
    ("TaskPlugin", "task/cgroup"),
];

/// Prints settings as Slurm names them.
pub fn config(session: &Session) -> Result {
    let status = session.client()?.status()?;
    let now = session.screen.clock.plain(session.view().now);
    let started = session.screen.clock.plain(status.started_at);
    let mut all: Vec<(&str, String)> =
        CONFIG.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    all.extend([
        ("BOOT_TIME", started),
        ("ClusterName", CLUSTER.to_owned()),
        ("SLURM_CONF", format!("{}/gpool.toml", status.state_dir)),
        ("SLURM_VERSION", SLURM.join(".")),
        ("SlurmctldHost[0]", this_host()),
        ("SlurmUser", format!("{}({})", status.user, cells::uid_of(&status.user))),
        ("StateSaveLocation", status.state_dir.clone()),
    ]);
    all.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    let mut text = format!("Configuration data as of {now}\n");
    for (name, value) in all {
        let _ = writeln!(text, "{name:<23} = {}", safe(&value));
    }
    let _ = writeln!(text, "\nSlurmctld(primary) at {} is UP", safe(&this_host()));
    print(&text, session)
}

/// The records of steps of running jobs.
pub fn steps(names: &[String], session: &Session) -> Result<Vec<ScontrolRecord>> {
    let jobs = selected(names, session)?;
    let running = jobs.iter().filter(|job| job.run.ended_at.is_none());
    let steps = running.filter_map(|job| Step::of(SlurmJobRow::of(job, session)));
    Ok(steps.map(|step| of_step(&step)).collect())
}

fn of_step(step: &Step<'_>) -> ScontrolRecord {
    let mut record = ScontrolRecord::default();
    let text = |cell: steps::Cell| cell(step).unwrap_or_default();
    let of_job = |cell: cells::Cell| cell(&step.row()).unwrap_or_default();
    let pair = |key: &'static str, text: &str| (key, text.to_owned());
    record.line(&[
        ("StepId", text(steps::id)),
        ("UserId", of_job(cells::uid)),
        ("StartTime", text(steps::start)),
        pair("TimeLimit", "UNLIMITED"),
    ]);
    record.line(&[
        ("State", text(steps::state)),
        ("Partition", of_job(cells::partition)),
        ("NodeList", text(steps::nodes)),
    ]);
    record.line(&[
        ("Nodes", text(steps::n_nodes)),
        ("CPUs", text(steps::cpus)),
        ("Tasks", text(steps::n_tasks)),
        ("Name", text(steps::name)),
        pair("Network", "(null)"),
    ]);
    record.line(&[("TRES", text(steps::resources))]);
    record.line(&[pair("ResvPorts", "(null)")]);
    record.line(&[pair("CPUFreqReq", "Default")]);
    record.line(&[pair("SrunHost:Pid", "(null):0")]);
    record
}

/// Prints reservations.
pub fn reservations(names: &[String], session: &Session) -> Result {
    let client = session.client()?;
    let all = match names {
        [] => client.reservations()?.items,
        names => {
            let one = |name: &String| client.reservation(name);
            names.iter().map(one).collect::<std::result::Result<Vec<_>, _>>()?
        }
    };
    if all.is_empty() {
        return print("No reservations in the system\n", session);
    }
    let records: Vec<ScontrolRecord> = all.iter().map(|one| of_reservation(one, session)).collect();
    print(&record::text(&records, false), session)
}

fn of_reservation(one: &Reservation, session: &Session) -> ScontrolRecord {
    let clock = &session.screen.clock;
    let mut record = ScontrolRecord::default();
    let pair = |key: &'static str, text: &str| (key, text.to_owned());
    let null = |key| pair(key, "(null)");
    let length = one.until.map(|until| long_time(until.0.since(one.from.0).get() / 1000));
    record.line(&[
        ("ReservationName", one.name.clone()),
        ("StartTime", clock.plain(one.from)),
        ("EndTime", one.until.map_or_else(|| "Unknown".to_owned(), |until| clock.plain(until))),
        ("Duration", length.unwrap_or_else(|| "UNLIMITED".to_owned())),
    ]);
    let mut nodes: Vec<String> =
        one.nodes.iter().cloned().chain(one.gpus.iter().map(|gpu| gpu.node.clone())).collect();
    hostlist::sort(&mut nodes);
    nodes.dedup();
    let flags = match (one.kind.as_str(), one.every) {
        ("maintenance", _) => "MAINT",
        (_, Some(_)) => "DAILY",
        _ => "",
    };
    record.line(&[
        ("Nodes", hostlist::compressed(&nodes)),
        ("NodeCnt", nodes.len().to_string()),
        pair("CoreCnt", "0"),
        null("Features"),
        null("PartitionName"),
        pair("Flags", flags),
    ]);
    record.line(&[("TRES", format!("gres/gpu={}", one.gpus.len()))]);
    let named = |kind: &str| match &one.beneficiary {
        Some(name) if one.beneficiary_kind == kind => name.clone(),
        _ => "(null)".to_owned(),
    };
    record.line(&[
        ("Users", named("user")),
        null("Groups"),
        ("Accounts", named("project")),
        null("Licenses"),
        pair("State", if one.state == "active" { "ACTIVE" } else { "INACTIVE" }),
        null("BurstBuffer"),
    ]);
    record.line(&[("Comment", one.reason.clone())]);
    record
}

/// Prints jobs that are ending.
pub fn completing(session: &Session) -> Result {
    let jobs = selected(&[], session)?;
    let ending = jobs.iter().filter(|job| job.state == JobState::Stopping);
    let lines = ending.map(|job| {
        let row = SlurmJobRow::of(job, session);
        let text = |cell: cells::Cell| cell(&row).unwrap_or_default();
        format!(
            "JobId={} EndTime=Unknown CompletingTime=Unknown Nodes(COMPLETING)={}\n",
            text(cells::id_raw),
            safe(&text(cells::nodes)),
        )
    });
    print(&lines.collect::<String>(), session)
}

/// The only job that the words name.
fn only(words: &[String], command: &str) -> Result<String> {
    let ids = select::ids(words.iter().cloned())?;
    match <[String; 1]>::try_from(ids) {
        Ok([id]) => Ok(id),
        Err(_) => Err(Failure::new(errors::USAGE, format!("scontrol {command}: give one job"))
            .tip(format!("scontrol {command} 17"))),
    }
}

/// Waits until a job has started.
///
/// # Errors
/// There is no such job, it ended before it started, or the server can't be asked.
pub fn wait_job(words: &[String], session: &Session) -> Result {
    let id = only(words, "wait_job")?;
    let client = session.client()?;
    // Subscribes before the first look, so that no change is missed.
    let mut events = session.patient(client.clone()).events(None)?;
    let has_started = |job: &Job| match job.run.started_at {
        Some(_) => Ok(true),
        None if job.state.is_end() => {
            let what = format!("job {} ended before it started", job.id);
            Err(Failure::new(errors::USAGE, what).exit_with(Exit(1)))
        }
        None => Ok(false),
    };
    let mut is_there = has_started(&client.job(&id)?)?;
    while !is_there {
        let Some(event) = events.next() else { break };
        is_there = event?.kind.may_concern(&id) && has_started(&client.job(&id)?)?;
    }
    print(&format!("scontrol: Nodes are ready for job {}\n", id.replace('.', "_")), session)
}

/// Gives jobs the highest priority among the pending jobs of their user.
pub fn top(words: &[String], session: &Session) -> Result {
    let jobs = selected(words, session)?;
    if words.is_empty() || jobs.is_empty() {
        return Err(Failure::new(errors::USAGE, "scontrol top: which job?").tip("scontrol top 17"));
    }
    let queued = selected(&[], session)?;
    for job in &jobs {
        let rivals = queued.iter().filter(|other| {
            other.user == job.user
                && other.run.started_at.is_none()
                && other.id != job.id
                && other.request.priority_number() >= job.request.priority_number()
        });
        let mut ids: Vec<String> = rivals.map(|other| id_of(other).to_owned()).collect();
        ids.dedup();
        if ids.is_empty() {
            continue;
        }
        // Users may only lower priorities, so the others give way, as in Slurm.
        let lower = job.request.priority_number().saturating_sub(1).to_string();
        gpool(&["prio".to_owned(), lower].into_iter().chain(ids).collect::<Vec<_>>(), session)?;
    }
    Ok(Exit::OK)
}

/// The id of a job, or of the array of a row of elements.
fn id_of(job: &Job) -> &str {
    match job.id.split_once(".[") {
        Some((array, _)) => array,
        None => &job.id,
    }
}

/// Prints the processes of jobs on this machine that the caller may see.
pub fn list_pids(words: &[String], session: &Session) -> Result {
    let wanted = select::ids(words.iter().take(1).cloned())?;
    let mut text = "PID      JOBID    STEPID   LOCALID GLOBALID\n".to_owned();
    let mut pids: Vec<u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    for pid in pids {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let variable = |name: &str| {
            let all = environment.split(|byte| *byte == 0);
            let found = all.filter_map(|one| std::str::from_utf8(one).ok()).find_map(|one| {
                one.split_once('=').filter(|(it, _)| *it == name).map(|(_, value)| value)
            });
            found.map(str::to_owned)
        };
        let Some(job) = variable("GPOOL_JOB_ID") else { continue };
        if !wanted.is_empty() && !wanted.contains(&job) {
            continue;
        }
        let step = variable("SLURM_STEP_ID").unwrap_or_else(|| steps::BATCH.to_owned());
        let or = |name: &str| variable(name).unwrap_or_else(|| "-".to_owned());
        let (local, global) = (or("SLURM_LOCALID"), or("SLURM_PROCID"));
        let job = job.replace('.', "_");
        let line = format!("{pid:<8} {job:<8} {step:<8} {local:<7} {global:<8}");
        let _ = writeln!(text, "{}", safe(&line));
    }
    print(&text, session)
}

/// Writes the script of a job into a file: `scontrol write batch_script ID [FILE]`.
///
/// # Errors
/// The job has no script, the file can't be written, or the server can't be asked.
pub fn write(words: &[String], session: &Session) -> Result {
    let usage = || {
        Failure::new(errors::USAGE, "scontrol write: give batch_script and a job")
            .tip("scontrol write batch_script 17 -")
    };
    let [what, id, file @ ..] = words else { return Err(usage()) };
    if !what.eq_ignore_ascii_case("batch_script") || file.len() > 1 {
        return Err(usage());
    }
    let id = only(std::slice::from_ref(id), "write batch_script")?;
    let script = session.client()?.script(&id)?;
    let bytes = script.bytes().map_err(Problem::from)?;
    let shown = id.replace('.', "_");
    let file = file.first().cloned().unwrap_or_else(|| format!("slurm-{shown}.sh"));
    if file == "-" {
        session.screen.raw(&bytes)?;
        return Ok(Exit::OK);
    }
    std::fs::write(&file, bytes).map_err(|error| {
        Failure::new(errors::NOT_WRITTEN, format!("can't write {file}: {error}")).exit_with(Exit(1))
    })?;
    let text = format!("batch script for job {shown} written to {}\n", safe(&file));
    print(&text, session)
}
