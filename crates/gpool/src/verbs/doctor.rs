//! `gpool doctor`: checks what gpool needs on this machine and reports the last recovery of the
//! server; exit code 1 if something is wrong.

mod enforcement;
pub mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::style::Style;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::{json, yaml};
use gpool_cli::session::{Session, own_socket, state_dir};
use gpool_cli::working::during;
use gpool_client::socket::{PATH_MAX, Surroundings, skipped};
use gpool_client::{Client, ServerLocation};
use gpool_device::{NodeDevices, Opened};
use gpool_model::enforcement::Mechanism;
use gpool_model::{Bytes, NodeName};
use gpool_sys::capability::{Capabilities, LimitMechanism};
use gpool_wire::{Node, Recovery, Status, Version, catalogue};
use serde::Serialize;

use super::down;
use crate::away;
use gpool_verbs::render::{calibration, recovery};

/// Free disk space below which doctor warns.
const SPACE_LOW: Bytes = Bytes::from_gib(1);
/// Limit of open files below which a busy server may run out.
const FILES_LOW: u64 = 4096;

#[derive(Debug, Clone, Default, Args)]
pub struct DoctorArgs {
    /// Single check to run; eta reports the accuracy of expected starts
    #[arg(value_enum, value_name = "WHAT", hide_possible_values = true)]
    what: Option<DoctorCheck>,
    /// State folder to check (default: the usual one)
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: gpool_verbs::PageFormat,
}

/// The checks that can run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DoctorCheck {
    /// The accuracy of expected starts.
    Eta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    /// It does not work here, and nothing needs it.
    Off,
    /// It works with restrictions.
    Less,
    Wrong,
}

/// One check with its result.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    what: &'static str,
    verdict: Verdict,
    found: String,
}

fn ok(what: &'static str, found: impl Into<String>) -> Probe {
    Probe { what, verdict: Verdict::Ok, found: found.into() }
}

fn off(what: &'static str, found: impl Into<String>) -> Probe {
    Probe { what, verdict: Verdict::Off, found: found.into() }
}

fn less(what: &'static str, found: impl Into<String>) -> Probe {
    Probe { what, verdict: Verdict::Less, found: found.into() }
}

fn wrong(what: &'static str, found: impl Into<String>) -> Probe {
    Probe { what, verdict: Verdict::Wrong, found: found.into() }
}

/// Runs the verb.
pub fn run(args: &DoctorArgs, session: &Session) -> Result {
    if args.what == Some(DoctorCheck::Eta) {
        return eta(args, session);
    }
    session.refuse_remote("doctor")?;
    let check = || probes(args.state_dir.as_deref(), session);
    let probes = during(&session.screen, "checking this machine", check);
    let is_wrong = probes.iter().any(|probe| probe.verdict == Verdict::Wrong);
    match args.output.or_json(session.global.json) {
        gpool_verbs::PageFormat::Text => session.screen.data(&table(&probes, session))?,
        gpool_verbs::PageFormat::Json => session.screen.data(&json::list(&probes))?,
        gpool_verbs::PageFormat::Jsonl => session.screen.data(&json::lines(&probes))?,
        gpool_verbs::PageFormat::Yaml => {
            session.screen.data(&yaml::of_json(&json::list(&probes)))?
        }
    }
    Ok(if is_wrong { Exit::FAILED } else { Exit::OK })
}

fn eta(args: &DoctorArgs, session: &Session) -> Result {
    let state = session.client()?.forecast_state()?;
    let text = match args.output.or_json(session.global.json) {
        gpool_verbs::PageFormat::Text => {
            calibration::page(&state, &session.view(), session.screen.colors)
        }
        gpool_verbs::PageFormat::Json => json::one(&state),
        gpool_verbs::PageFormat::Jsonl => json::line(&state),
        gpool_verbs::PageFormat::Yaml => yaml::of_json(&json::one(&state)),
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

/// The server that other verbs would use, with its answers.
struct LiveServer {
    client: Client,
    version: Version,
    recovery: Recovery,
    status: Status,
}

impl LiveServer {
    /// The user of the server, if it is not the caller.
    fn other_user(&self, session: &Session) -> Option<&str> {
        Some(self.status.user.as_str()).filter(|user| *user != session.me())
    }
}

fn ask(session: &Session) -> Result<LiveServer> {
    let client = session.client()?;
    let (version, recovery, status) = (client.version()?, client.recovery()?, client.status()?);
    Ok(LiveServer { client, version, recovery, status })
}

/// Runs all checks for the named state folder, or else the folder of the answering server, or else
/// the usual one.
pub fn probes(named: Option<&str>, session: &Session) -> Vec<Probe> {
    let asked = ask(session);
    let mut probes = server(&asked, named, session);
    let asked = asked.as_ref().ok();
    probes.push(gpus(asked));
    probes.extend(pauses());
    let listed = asked.and_then(|asked| asked.client.gpus().ok());
    let of_gpus = listed.iter().flat_map(|list| enforcement::rows(&list.items));
    let of_gpus: Vec<Probe> = of_gpus.collect();
    let filter = Mechanism::DeviceFilter.as_str();
    let is_shown = of_gpus.iter().any(|probe| probe.what == filter);
    probes.extend(of_gpus);
    // Without a server, the row of the machine stands for those of its GPUs.
    probes.extend(limits().into_iter().filter(|probe| !is_shown || probe.what != filter));
    let of_server = asked.filter(|_| named.is_none());
    match of_server.map_or_else(|| state_dir(named), |it| Ok(it.status.state_dir.clone().into())) {
        Ok(dir) => probes.extend(state(&dir, asked.and_then(|it| it.other_user(session)))),
        Err(failure) => probes.push(wrong("state folder", failure.what())),
    }
    probes.extend(service::service(asked.map(|it| it.status.user.as_str()), session.me()));
    probes.push(files());
    probes.push(clock());
    probes
}

fn table(probes: &[Probe], session: &Session) -> String {
    let mut table = Table::new(["WHAT", "", "FOUND"].map(str::to_owned).to_vec());
    for probe in probes {
        let (word, style) = match probe.verdict {
            Verdict::Ok => ("ok", Style::Good),
            Verdict::Off => ("off", Style::Plain),
            Verdict::Less => ("warn", Style::Warn),
            Verdict::Wrong => ("wrong", Style::Bad),
        };
        table.push(vec![
            Cell::new(probe.what),
            Cell::new(word).styled(style),
            Cell::new(&probe.found),
        ]);
    }
    // Not cut to the width of the terminal, since the problem is at the end of a line.
    table.render(None, session.screen.colors)
}

/// Checks whether a server answers, on which socket, and how its last start went; otherwise what
/// goes on without a server.
fn server(live_server: &Result<LiveServer>, named: Option<&str>, session: &Session) -> Vec<Probe> {
    let mut probes = Vec::new();
    let socket = match live_server {
        Ok(LiveServer { client, .. }) if client.socket().is_some() => {
            Ok(client.socket().map(Path::to_owned).unwrap_or_default())
        }
        _ => own_socket(session.global.server.as_deref()),
    };
    match socket {
        Ok(socket) => {
            let n_bytes = socket.as_os_str().len();
            let text = format!("{} ({n_bytes} of {PATH_MAX} bytes)", socket.display());
            probes.push(ok("socket", text));
        }
        Err(failure) => probes.push(wrong("socket", failure.what())),
    }
    match live_server {
        Ok(asked) => probes.extend(answering(asked, session)),
        Err(failure) if failure.code() == Some(catalogue::SILENT) => {
            let words = |tip: &String| tip.split_whitespace().collect::<Vec<_>>().join(" ");
            let ways: Vec<String> = failure.tips().iter().map(words).collect();
            probes.push(wrong("server", format!("{}; {}", failure.what(), ways.join(", or "))));
            probes.extend(without_server(named, session));
        }
        Err(failure) => {
            probes.push(less("server", format!("{}; gpool up starts one", failure.what())));
            if let Some((pid, folder)) = down::holder(session) {
                let text = format!("process {pid} has {folder} open and does not listen");
                probes.push(wrong("server process", text));
            }
            probes.extend(without_server(named, session));
        }
    }
    probes.extend(strangers());
    let is_trusted = Surroundings::of_this_process();
    if is_trusted.runtime_dir.is_none() && is_trusted.uid != 0 {
        probes.push(less("XDG_RUNTIME_DIR", "not set; the socket is in a folder under /tmp"));
    }
    probes
}

/// Checks for a folder of another user at the place of the caller's own socket.
fn strangers() -> Option<Probe> {
    let surroundings = Surroundings::of_this_process();
    let Ok(ServerLocation::Usual { own, machine }) = surroundings.place(None) else { return None };
    if own == machine {
        return None;
    }
    let why = match skipped(&own, surroundings.uid) {
        Ok(why) => why?,
        Err(error) => return Some(wrong("socket folder", error.to_string())),
    };
    let text = format!("{why}; choose another path for your own server: gpool up --socket PATH");
    Some(less("socket folder", text))
}

/// The checks of an answering server.
fn answering(live_server: &LiveServer, session: &Session) -> Vec<Probe> {
    let LiveServer { client, version, recovery, status } = live_server;
    let (own, user) = (super::version::VERSION, &status.user);
    let answers = format!("{} answers (pid {}, user {user})", version.version, version.pid);
    let mut probes = vec![match version.version == own {
        true => ok("server", answers),
        false => less("server", format!("{answers}; this command has version {own}")),
    }];
    probes.extend(client.nodes().map(|list| nodes(&list.items)).unwrap_or_default());
    probes.extend(short_memory(version.pid));
    probes.extend(service::notifications(client, status));
    probes.extend(status.store_fault.as_ref().map(|why| wrong("store writes", why)));
    probes.extend(status.web_fault.as_ref().map(|why| wrong("dashboard", why)));
    probes.extend(status.network_fault.as_ref().map(|why| wrong("network", why)));
    probes.extend(status.lacking.as_ref().map(|why| wrong("environments", why)));
    probes.extend(recovery::lines(recovery, &session.view()).into_iter().map(|line| {
        if line.is_bad { less(line.what, line.text) } else { ok(line.what, line.text) }
    }));
    probes
}

/// The nodes, if there are several, and those without an agent.
fn nodes(nodes: &[Node]) -> Vec<Probe> {
    let names = |nodes: &[&Node]| -> String {
        nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (here, gone): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|node| node.connected);
    let mut probes = Vec::new();
    if here.len() > 1 {
        probes.push(ok("nodes", names(&here)));
    }
    if !gone.is_empty() {
        probes.push(less("nodes", format!("without an agent: {}", names(&gone))));
    }
    probes.extend(containers(&here));
    probes
}

/// The engines of the nodes for containers.
fn containers(nodes: &[&Node]) -> Vec<Probe> {
    let mut by_engine: BTreeMap<(&str, &[String]), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let engine = node.container_engine.as_deref().unwrap_or("none");
        by_engine.entry((engine, &node.container_remarks)).or_default().push(&node.name);
    }
    let probe = |((engine, remarks), names): ((&str, &[String]), Vec<&str>)| {
        let found = format!("{engine} on {}", names.join(", "));
        match (engine, remarks) {
            ("none", []) => off("containers", found),
            (_, []) => ok("containers", found),
            (_, remarks) => less("containers", format!("{found}; {}", remarks.join("; "))),
        }
    };
    by_engine.into_iter().map(probe).collect()
}

/// The jobs that run although no server answers.
fn without_server(named: Option<&str>, session: &Session) -> Option<Probe> {
    let found = away::look(named, session);
    let runs: Vec<String> = found.runs().map(|run| run.task.job.to_string()).collect();
    match (runs.as_slice(), found.unreadable.as_slice()) {
        ([], []) => None,
        ([], unreadable) => Some(less("jobs", unreadable.join("; "))),
        (runs, _) => {
            let text = format!("run without it: {}; gpool queue shows more", runs.join(", "));
            Some(ok("jobs", text))
        }
    }
}

/// Which processes the kernel kills first when memory runs out.
fn short_memory(server: u32) -> Option<Probe> {
    let what = "out of memory";
    let text = std::fs::read_to_string(format!("/proc/{server}/oom_score_adj")).ok()?;
    let score: i32 = text.trim().parse().ok()?;
    Some(if score < 0 {
        ok(what, format!("the kernel ends jobs before the server (oom_score_adj {score})"))
    } else {
        let why = "lowering it needs CAP_SYS_RESOURCE";
        less(what, format!("the kernel may end the server first (oom_score_adj {score}; {why})"))
    })
}

/// The GPUs of the answering server, or else of this machine.
fn gpus(live_server: Option<&LiveServer>) -> Probe {
    let nodes = live_server.and_then(|asked| asked.client.nodes().ok()).map(|list| list.items);
    let nodes: Vec<Node> =
        nodes.unwrap_or_default().into_iter().filter(|it| it.n_gpus > 0).collect();
    if nodes.is_empty() {
        return gpus_here();
    }
    let n: u64 = nodes.iter().map(|node| u64::from(node.n_gpus)).sum();
    let from: BTreeSet<&str> = nodes.iter().map(|node| node.devices_from.as_str()).collect();
    let from: Vec<&str> = from.into_iter().collect();
    ok("gpus", format!("{n} of the server: {}", from.join(", ")))
}

/// The row about resumes.
const MOVES: &str = "resume jobs on";

/// How this machine frees the GPUs of paused jobs, and whether these resume on other GPUs; nothing
/// without NVIDIA GPUs.
fn pauses() -> Vec<Probe> {
    let Opened::Source(source) =
        NodeDevices::Nvml.open(&NodeName::new("doctor"), Path::new("/nonexistent"))
    else {
        return Vec::new();
    };
    let has_gpus = source.outline().is_ok_and(|outline| outline.n_devices > 0);
    let Some(program) = std::env::current_exe().ok().filter(|_| has_gpus) else {
        return Vec::new();
    };
    let found = gpool_checkpoint::probe(&program, &gpool_checkpoint::Drivers::usual());
    let moves = match found.refusal_of_moves(None) {
        None => ok(MOVES, format!("another GPU of the model, by driver {}", found.driver)),
        Some(why) => less(MOVES, format!("their own GPU only: {why}")),
    };
    let pauses = match found.refusal {
        None => ok("pause jobs by", found.text),
        Some(_) => return vec![less("pause jobs by", found.text)],
    };
    vec![pauses, moves]
}

fn gpus_here() -> Probe {
    let nowhere = Path::new("/nonexistent");
    match NodeDevices::Nvml.open(&NodeName::new("doctor"), nowhere) {
        Opened::Source(source) => match source.outline() {
            Ok(outline) if outline.n_devices > 0 => {
                ok("gpus", format!("{} by {}", outline.n_devices, outline.driver))
            }
            Ok(outline) => less("gpus", format!("none by {}", outline.driver)),
            Err(error) => wrong("gpus", error.to_string()),
        },
        Opened::Nothing { why } => less("gpus", format!("none: {why}")),
    }
}

/// How the number of a job's processes is limited; cgroup v1 needs a setting for it.
fn processes(can: &Capabilities) -> Probe {
    match can.processes {
        LimitMechanism::CgroupV1 => ok(
            "limit processes by",
            format!("{}, if job_processes_max is set in gpool.toml", can.processes.as_str()),
        ),
        held => ok("limit processes by", held.as_str()),
    }
}

/// The limits that the kernel can enforce for jobs.
fn limits() -> Vec<Probe> {
    let can = Capabilities::probe();
    let mut probes = vec![
        ok("end jobs by", can.kill.as_str()),
        ok("limit memory by", can.memory.as_str()),
        processes(&can),
        match can.cpu {
            LimitMechanism::No => {
                less("limit cpu by", "nothing: --cpus is counted, but not enforced")
            }
            held => ok("limit cpu by", held.as_str()),
        },
        match &can.devices {
            Ok(()) => ok(Mechanism::DeviceFilter.as_str(), "works"),
            Err(why) => less(Mechanism::DeviceFilter.as_str(), format!("does not work: {why}")),
        },
        match can.other_users {
            true => ok("other users' jobs", "run as their users"),
            false => off("other users' jobs", "only your own jobs run: a server of root runs all"),
        },
    ];
    let is_fatal = !can.pidfd;
    let warnings = can.warnings().into_iter().filter(|warning| !warning.contains("--cpus"));
    probes.extend(warnings.map(|warning| {
        if is_fatal && warning.starts_with("no pidfd") {
            wrong("kernel", warning)
        } else {
            less("kernel", warning)
        }
    }));
    probes
}

/// Checks the state folder: write access, free space, and the integrity of the store. Only the user
/// of the server needs write access.
fn state(dir: &Path, other_user: Option<&str>) -> Vec<Probe> {
    let mut probes = Vec::new();
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let can_write = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_ok();
    let theirs = other_user.filter(|_| !can_write);
    let text = match (existing == dir, can_write) {
        _ if theirs.is_some() => {
            format!("{} belongs to user {}", dir.display(), theirs.unwrap_or_default())
        }
        (true, true) => format!("{} is writable", dir.display()),
        (false, true) => format!("{} can be created", dir.display()),
        (_, false) => format!("{} is not writable", existing.display()),
    };
    let is_fine = can_write || theirs.is_some();
    probes.push(if is_fine { ok("state folder", text) } else { wrong("state folder", text) });
    if let Ok(room) = rustix::fs::statvfs(existing) {
        let free = Bytes::new(room.f_bavail.saturating_mul(room.f_frsize));
        let text = format!("{free} free");
        probes.push(match free {
            free if free.is_zero() => wrong("disk space", text),
            free if free < SPACE_LOW => less("disk space", text),
            _ => ok("disk space", text),
        });
    }
    if existing == dir && theirs.is_none() && dir.join("store.db").exists() {
        probes.push(match gpool_store::verify(dir) {
            Ok(report) if report.is_sound() => {
                ok("store", format!("intact, revision {}", report.revision))
            }
            Ok(report) => {
                let first = report.findings.first().map(|found| found.what.as_str());
                wrong("store", format!("damaged: {}", first.unwrap_or("gpool verify shows more")))
            }
            Err(error) => wrong("store", error.to_string()),
        });
    }
    probes
}

fn files() -> Probe {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    match limit.maximum {
        Some(most) if most < FILES_LOW => {
            less("open files", format!("at most {most}; a busy server may need {FILES_LOW}"))
        }
        Some(most) => ok("open files", format!("at most {most}")),
        None => ok("open files", "no limit"),
    }
}

fn clock() -> Probe {
    let now = jiff::Timestamp::now();
    // This program was built after that date.
    let year_2026 = jiff::Timestamp::from_second(1_767_225_600).unwrap_or(jiff::Timestamp::MIN);
    if now < year_2026 {
        return wrong("clock", format!("it shows {now}, which is wrong: set it"));
    }
    ok("clock", now.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}
