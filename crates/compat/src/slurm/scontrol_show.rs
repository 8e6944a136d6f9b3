//! `scontrol show`: one record for each job, node or partition, in lines of `Key=value`.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::Said;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{Gpu, Job, Node, catalogue};

use super::cells::{Cell, DEFAULT_POOL};
use super::select::{self, Filter};
use super::{sinfo, tres};
use crate::shim::print;

/// Objects of Slurm that another gpool command shows.
const INSTEAD: [(&str, &str); 12] = [
    ("aliases", "gpool nodes"),
    ("assoc_mgr", "gpool quota"),
    ("bbstat", "gpool status"),
    ("burstbuffer", "gpool status"),
    ("config", "gpool policy show, gpool debug config"),
    ("daemons", "gpool status"),
    ("dwstat", "gpool status"),
    ("federation", "gpool status"),
    ("licenses", "gpool gpus"),
    ("reservation", "gpool reserve list"),
    ("step", "scontrol show job JOB: a job has no steps"),
    ("topology", "gpool nodes -o wide"),
];

/// Runs the command.
///
/// # Errors
/// There is no such object, or another gpool command shows it.
pub fn run(said: &Said, session: &Session) -> Result {
    let Some((what, names)) = said.words.split_first() else {
        return Err(Failure::new(errors::USAGE, "scontrol show: the object is missing")
            .tip("scontrol show job 17"));
    };
    // `job=17` is `job 17`.
    let (what, name) = what.split_once('=').map_or((what.as_str(), None), |(a, b)| (a, Some(b)));
    let names: Vec<String> =
        name.map(str::to_owned).into_iter().chain(names.iter().cloned()).collect();
    let records = match what.to_ascii_lowercase().as_str() {
        "job" | "jobs" | "jobid" => jobs(&names, session)?,
        "node" | "nodes" | "nodename" => nodes(&names, session)?,
        "partition" | "partitions" | "partitionname" => partitions(&names, session)?,
        "hostnames" | "hostname" => return hostnames(&names, session),
        "hostlist" | "hostlistsorted" => return print(&format!("{}\n", names.join(",")), session),
        other => return Err(no_such(other)),
    };
    let is_short = said.has("oneliner");
    let text = records.iter().map(|record| match is_short {
        true => format!("{}\n", record.lines.concat().join(" ")),
        false => {
            let lines: Vec<String> = record.lines.iter().map(|line| line.join(" ")).collect();
            format!("{}\n\n", lines.join("\n   "))
        }
    });
    print(&text.collect::<String>(), session)
}

fn no_such(what: &str) -> Failure {
    let found = INSTEAD.iter().find(|(theirs, _)| theirs.starts_with(what.trim_end_matches('s')));
    let failure =
        Failure::new(errors::NO_SUCH_VERB, format!("scontrol of gpool can't show {what:?}"))
            .why("it shows job, node, partition, hostnames and hostlist");
    match found {
        Some((_, ours)) if what.len() > 2 => failure.tip(*ours),
        _ => failure.tip("scontrol show job 17"),
    }
}

/// Lines of `Key=value` pairs.
#[derive(Default)]
struct Record {
    lines: Vec<Vec<String>>,
}

impl Record {
    /// Adds a line. Line breaks in values become blanks.
    fn line(&mut self, pairs: &[(&str, String)]) {
        let pair =
            |(key, value): &(&str, String)| format!("{key}={}", safe(value).replace('\n', " "));
        self.lines.push(pairs.iter().map(pair).collect());
    }
}

fn jobs(names: &[String], session: &Session) -> Result<Vec<Record>> {
    let client = session.client()?;
    let mut filter = Filter::default();
    filter.ids = select::ids(names.iter().cloned())?;
    let rows = filter.rows(&client, !filter.ids.is_empty(), false)?;
    if rows.is_empty() && !filter.ids.is_empty() {
        let what = format!("there is no job {}", filter.ids.join(", "));
        return Err(Failure::new(catalogue::NO_SUCH_JOB, what).tip("sacct -a"));
    }
    Ok(rows.iter().map(|job| of_job(job, session)).collect())
}

fn of_job(job: &Job, session: &Session) -> Record {
    let mut record = Record::default();
    let cell = |cell: Cell| cell.text(job, session);
    let array = job.id.split_once('.');
    let mut first = vec![("JobId", job_id(job))];
    if let Some((number, element)) = array {
        let element = element.trim_matches(['[', ']']).to_owned();
        first.extend([("ArrayJobId", number.to_owned()), ("ArrayTaskId", element)]);
    }
    first.push(("JobName", cell(Cell::Name)));
    record.line(&first);
    record.line(&[("UserId", job.user.clone()), ("GroupId", job.user.clone())]);
    let nice = job.priority.saturating_neg().to_string();
    record.line(&[
        ("Priority", cell(Cell::Priority)),
        ("Nice", nice),
        ("Account", cell(Cell::Account)),
        ("QOS", "normal".to_owned()),
    ]);
    record.line(&[
        ("JobState", cell(Cell::State)),
        ("Reason", cell(Cell::Reason)),
        ("Dependency", cell(Cell::Dependency)),
    ]);
    record.line(&[
        ("Requeue", u8::from(job.requeue.unwrap_or(false)).to_string()),
        ("Restarts", cell(Cell::Restarts)),
        ("BatchFlag", u8::from(job.script).to_string()),
        ("Reboot", "0".to_owned()),
        ("ExitCode", cell(Cell::ExitCode)),
    ]);
    times(&mut record, job, session);
    places(&mut record, job, session);
    let null = || "(null)".to_owned();
    record.line(&[("Command", cell(Cell::Command))]);
    record.line(&[("WorkDir", cell(Cell::WorkDir))]);
    record.line(&[("Comment", job.note.clone().unwrap_or_else(null))]);
    record.line(&[("StdErr", cell(Cell::StdErr))]);
    record.line(&[("StdIn", job.stdin.clone().unwrap_or_else(|| "/dev/null".to_owned()))]);
    record.line(&[("StdOut", cell(Cell::StdOut))]);
    if !matches!(job.gpus.as_str(), "" | "0") {
        record.line(&[("TresPerTask", format!("gres/gpu:{}", job.gpus))]);
    }
    record
}

/// The id as a number; for a row of waiting elements, the id of the array.
fn job_id(job: &Job) -> String {
    match job.id.parse::<gpool_model::JobId>() {
        Ok(id) => id.plain().to_string(),
        Err(_) => job.id.split('.').next().unwrap_or_default().to_owned(),
    }
}

fn times(record: &mut Record, job: &Job, session: &Session) {
    let cell = |cell: Cell| cell.text(job, session);
    let moment = |at: Option<gpool_wire::Time>, absent: &str| {
        at.map_or_else(|| absent.to_owned(), |at| session.screen.clock.plain(at))
    };
    let unknown = |text: String| if text == "N/A" { "Unknown".to_owned() } else { text };
    record.line(&[
        ("RunTime", cell(Cell::RunTime)),
        ("TimeLimit", cell(Cell::LimitLong)),
        ("TimeMin", "N/A".to_owned()),
    ]);
    record.line(&[
        ("SubmitTime", cell(Cell::Submit)),
        ("EligibleTime", moment(job.begin.or(Some(job.submitted_at)), "Unknown")),
    ]);
    record.line(&[
        ("StartTime", unknown(cell(Cell::Start))),
        ("EndTime", unknown(cell(Cell::End))),
        ("Deadline", moment(job.deadline, "N/A")),
    ]);
}

fn places(record: &mut Record, job: &Job, session: &Session) {
    let cell = |cell: Cell| cell.text(job, session);
    let first = job.placement.first().map(|placed| placed.node.clone()).unwrap_or_default();
    record.line(&[("Partition", cell(Cell::Partition))]);
    record.line(&[("NodeList", cell(Cell::Nodes))]);
    record.line(&[("BatchHost", first)]);
    record.line(&[
        ("NumNodes", cell(Cell::NumNodes)),
        ("NumCPUs", cell(Cell::Cpus)),
        ("NumTasks", cell(Cell::Tasks)),
        ("CPUs/Task", cell(Cell::Cpus)),
    ]);
    record.line(&[("ReqTRES", tres::asked(job))]);
    let allocated = Some(tres::allocated(job)).filter(|text| !text.is_empty());
    record.line(&[("AllocTRES", allocated.unwrap_or_else(|| "(null)".to_owned()))]);
    if !job.placement.is_empty() {
        let on = |placed: &gpool_wire::PlacedOn| {
            let devices: Vec<String> = placed.devices.iter().map(u32::to_string).collect();
            let n = devices.len();
            format!("{}:gpu:{n}(IDX:{})", placed.node, devices.join(","))
        };
        let all: Vec<String> = job.placement.iter().map(on).collect();
        record.line(&[("Nodes+GRES", all.join(","))]);
    }
}

fn wanted<T>(
    names: &[String],
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
    what: &str,
) -> Result<Vec<T>> {
    let names: Vec<&str> = names.iter().flat_map(|names| names.split(',')).collect();
    let missing = names.iter().find(|wanted| !all.iter().any(|one| name(one) == **wanted));
    if let Some(missing) = missing {
        let there: Vec<&str> = all.iter().map(&name).collect();
        let failure = Failure::new(catalogue::INVALID, format!("there is no {what} {missing:?}"));
        return Err(failure.why(format!("the choices are {}", there.join(", "))));
    }
    let is_wanted = |one: &T| names.is_empty() || names.contains(&name(one));
    Ok(all.into_iter().filter(is_wanted).collect())
}

fn nodes(names: &[String], session: &Session) -> Result<Vec<Record>> {
    let client = session.client()?;
    let gpus = client.gpus()?.items;
    let nodes = wanted(names, client.nodes()?.items, |node| &node.name, "node")?;
    Ok(nodes.iter().map(|node| of_node(node, &gpus, session)).collect())
}

fn of_node(node: &Node, gpus: &[Gpu], session: &Session) -> Record {
    let mut record = Record::default();
    let none = || "(null)".to_owned();
    let mib = |bytes: u64| (bytes >> 20).to_string();
    record.line(&[("NodeName", node.name.clone()), ("Arch", std::env::consts::ARCH.to_owned())]);
    record.line(&[
        ("CPUAlloc", node.cpus_used.to_string()),
        ("CPUTot", node.cpus.to_string()),
        ("CPULoad", "N/A".to_owned()),
    ]);
    record.line(&[("AvailableFeatures", none())]);
    record.line(&[("Gres", sinfo::gres(gpus, node, |_| true))]);
    record.line(&[("GresUsed", sinfo::gres(gpus, node, |gpu| gpu.job.is_some()))]);
    record.line(&[
        ("NodeAddr", node.name.clone()),
        ("NodeHostName", node.name.clone()),
        ("Version", node.version.clone()),
    ]);
    record.line(&[("OS", node.system.clone())]);
    record.line(&[
        ("RealMemory", mib(node.memory)),
        ("AllocMem", mib(node.memory_used)),
        ("FreeMem", mib(node.memory.saturating_sub(node.memory_used))),
    ]);
    record.line(&[("State", sinfo::state_long(node).to_ascii_uppercase())]);
    record.line(&[("Partitions", node.pool.clone())]);
    let n_of = |used: bool| {
        let here = gpus.iter().filter(|gpu| gpu.node == node.name && (!used || gpu.job.is_some()));
        here.count()
    };
    let tres = |cpus: f64, memory: u64, gpus: usize| {
        format!("cpu={cpus},mem={}M,gres/gpu={gpus}", memory >> 20)
    };
    record.line(&[("CfgTRES", tres(node.cpus, node.memory, n_of(false)))]);
    record.line(&[("AllocTRES", tres(node.cpus_used, node.memory_used, n_of(true)))]);
    if let Some(drain) = &node.drain {
        let since = session.screen.clock.plain(drain.since);
        record.line(&[("Reason", format!("{} [{}@{since}]", drain.reason, drain.who))]);
    } else if node.n_gpus_closed > 0 {
        record.line(&[("Reason", "gpu_not_allowed".to_owned())]);
    }
    record
}

fn partitions(names: &[String], session: &Session) -> Result<Vec<Record>> {
    let client = session.client()?;
    let pools = wanted(names, client.pools()?.items, |pool| &pool.name, "partition")?;
    let nodes = client.nodes()?.items;
    let yes_no = |is_so: bool| if is_so { "YES" } else { "NO" }.to_owned();
    let of = |pool: &gpool_wire::Pool| {
        let here = || nodes.iter().filter(|node| node.pool == pool.name);
        let cpus: f64 = here().map(|node| node.cpus).sum();
        let memory: u64 = here().map(|node| node.memory).sum();
        let mut record = Record::default();
        record.line(&[("PartitionName", pool.name.clone())]);
        record.line(&[("AllowGroups", "ALL".to_owned()), ("AllowAccounts", "ALL".to_owned())]);
        record.line(&[("Default", yes_no(pool.name == DEFAULT_POOL)), ("Hidden", "NO".to_owned())]);
        record.line(&[("MaxNodes", "UNLIMITED".to_owned()), ("MaxTime", "UNLIMITED".to_owned())]);
        record.line(&[("Nodes", pool.nodes.join(","))]);
        record.line(&[
            ("State", if pool.n_connected > 0 { "UP" } else { "DOWN" }.to_owned()),
            ("TotalCPUs", cpus.to_string()),
            ("TotalNodes", pool.nodes.len().to_string()),
        ]);
        let tres = format!("cpu={cpus},mem={}M,node={}", memory >> 20, pool.nodes.len());
        record.line(&[("TRES", format!("{tres},gres/gpu={}", pool.n_gpus))]);
        record
    };
    Ok(pools.iter().map(of).collect())
}

/// Prints each node of a list, or of the surrounding job, on its own line.
fn hostnames(names: &[String], session: &Session) -> Result {
    let list = match names.join(",") {
        list if list.is_empty() => std::env::var("SLURM_JOB_NODELIST").unwrap_or_default(),
        list => list,
    };
    if list.is_empty() {
        return Err(Failure::new(errors::USAGE, "scontrol show hostnames: the nodes are missing")
            .why("outside a job, SLURM_JOB_NODELIST is not set")
            .tip("scontrol show hostnames lab1,lab2"));
    }
    let mut text = String::new();
    for name in expanded(&list) {
        let _ = writeln!(text, "{}", safe(&name));
    }
    print(&text, session)?;
    Ok(Exit::OK)
}

/// Expands `lab[1-3,7],gpu1`.
pub fn expanded(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in select::parts(list) {
        let Some((before, rest)) = part.split_once('[') else {
            found.push(part.to_owned());
            continue;
        };
        let (ranges, after) = rest.split_once(']').unwrap_or((rest, ""));
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let width = first.len();
            let bounds = (first.parse::<u32>(), last.parse::<u32>());
            match bounds {
                (Ok(first), Ok(last)) => found.extend(
                    (first..=last).take(100_000).map(|n| format!("{before}{n:0width$}{after}")),
                ),
                _ => found.push(format!("{before}{range}{after}")),
            }
        }
    }
    found
}
