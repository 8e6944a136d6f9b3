//! Every failpoint of the program: before and after each time that data is written or sent. A point
//! determines which process is killed, and so the possible effects on a job.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::history::Fate;
use super::numbers::{KILLS, Numbers, rounds, seed};
use super::siege::{Siege, shepherd_in};
use crate::harness::{Cluster, skip, until, until_so};

/// How a point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By the work of clients and jobs.
    Load,
    /// The same, rarely.
    SeldomLoad,
    /// By a job that is cancelled before its launch: during the check of its devices, which then
    /// takes longer than usual.
    Prevention,
    /// By killing a shepherd.
    LostShepherd,
    /// By starting a server.
    Start,
    /// By the first start in a folder.
    FirstStart,
    /// By stopping a server with a signal.
    End,
    /// By a job with a working folder and results.
    Files,
    /// By a job that needs the device of a guest.
    Move,
    /// By a paused job that resumes.
    Resume,
}

/// A point of server and agent, or of a process that writes claims.
const fn server(name: &'static str, by: By) -> Point {
    Point { name, by, fate: Fate::NotStarted }
}

/// A point of shepherds, with the possible effects on the job.
const fn shepherd(name: &'static str, fate: Fate) -> Point {
    Point { name, by: By::Load, fate }
}

/// The same, for a point that is reached rarely.
const fn seldom(name: &'static str, fate: Fate) -> Point {
    Point { name, by: By::SeldomLoad, fate }
}

/// A failpoint.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub name: &'static str,
    pub by: By,
    /// The possible effects on the job if its shepherd is killed here.
    fate: Fate,
}

pub const POINTS: &[Point] = &[
    server("store-create-begin", By::FirstStart),
    server("store-create-made", By::FirstStart),
    server("store-create-published", By::FirstStart),
    server("store-file-synced", By::Load),
    server("store-open-locked", By::Start),
    server("store-open-loaded", By::Start),
    server("store-open-done", By::Start),
    server("store-blob-begin", By::Load),
    server("store-blob-done", By::Load),
    server("store-commit-begin", By::Load),
    server("store-commit-written", By::Load),
    server("store-commit-durable", By::Load),
    server("store-commit-marked", By::Load),
    server("store-commit-told", By::Load),
    server("server-start-loaded", By::Start),
    server("server-start-begun", By::Start),
    server("server-start-agent", By::Start),
    server("server-start-connected", By::Start),
    server("server-start-listening", By::Start),
    server("server-start-ready", By::Start),
    server("server-command-heard", By::Load),
    server("server-reply-before", By::Load),
    server("server-reply-after", By::Load),
    server("server-order-before", By::Load),
    server("server-order-after", By::Load),
    server("server-report-heard", By::Load),
    server("server-post-before", By::SeldomLoad),
    server("server-post-after", By::SeldomLoad),
    server("server-stop-asked", By::End),
    server("server-stop-served", By::End),
    server("server-stop-agent", By::End),
    server("server-stop-done", By::End),
    server("agent-adopt-before", By::Start),
    server("agent-adopt-each", By::Start),
    server("agent-inventory-before", By::Start),
    server("agent-inventory-after", By::Start),
    server("agent-order-heard", By::Load),
    server("agent-launch-before", By::Load),
    server("agent-launch-after", By::Load),
    server("agent-checked", By::Load),
    server("agent-report-before", By::Load),
    server("agent-report-after", By::Load),
    server("agent-end-heard", By::Load),
    server("agent-end-before", By::SeldomLoad),
    server("agent-end-after", By::SeldomLoad),
    server("agent-change-before", By::SeldomLoad),
    server("agent-change-after", By::SeldomLoad),
    server("agent-signal-before", By::SeldomLoad),
    server("agent-signal-after", By::SeldomLoad),
    server("agent-prevent-before", By::Prevention),
    server("agent-prevent-claimed", By::Prevention),
    server("agent-detach-before", By::Move),
    server("agent-detach-after", By::Move),
    server("agent-attach-before", By::Move),
    server("agent-attach-after", By::Move),
    server("agent-resume-before", By::Resume),
    server("agent-resume-limited", By::Resume),
    server("agent-resume-after", By::Resume),
    server("files-object-written", By::Files),
    server("files-object-stored", By::Files),
    server("files-result-written", By::Files),
    server("agent-folder-built", By::Files),
    server("agent-folder-publish", By::Files),
    server("agent-results-walked", By::Files),
    server("agent-results-some", By::Files),
    server("agent-results-sent", By::Files),
    server("agent-forget-before", By::Load),
    server("agent-forget-noted", By::Load),
    server("agent-forget-moved", By::Load),
    server("agent-forget-told", By::Load),
    server("agent-lost-before", By::LostShepherd),
    server("agent-lost-ended", By::LostShepherd),
    server("agent-lost-noted", By::LostShepherd),
    server("agent-stop", By::End),
    server("nursery-asked", By::Load),
    server("nursery-forked", By::Load),
    server("nursery-told", By::Load),
    server("claim-new", By::Load),
    server("claim-written", By::Load),
    shepherd("claim-named", Fate::Lost),
    shepherd("shepherd-born", Fate::NotStarted),
    shepherd("shepherd-claim-before", Fate::NotStarted),
    shepherd("shepherd-claimed", Fate::Lost),
    shepherd("shepherd-ready", Fate::Lost),
    shepherd("shepherd-forked", Fate::Lost),
    shepherd("program-before", Fate::NotStarted),
    shepherd("shepherd-started", Fate::Lost),
    shepherd("shepherd-start-noted", Fate::Lost),
    shepherd("shepherd-start-told", Fate::Lost),
    seldom("shepherd-change-noted", Fate::Lost),
    Point { name: "shepherd-detached", by: By::Move, fate: Fate::Lost },
    Point { name: "shepherd-attached", by: By::Move, fate: Fate::Lost },
    shepherd("shepherd-ended", Fate::Lost),
    shepherd("shepherd-end-noted", Fate::Kept),
    shepherd("shepherd-end-told", Fate::Kept),
    shepherd("shepherd-acknowledged", Fate::Kept),
];

/// Points that other tests reach.
const OF_OTHERS: [By; 4] = [By::FirstStart, By::Files, By::Move, By::Resume];

#[test]
fn killed_at_every_point_nothing_is_lost_and_nothing_runs_twice() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut siege = Siege::new(seed().wrapping_add(2), 1, 2);
    for round in 0..rounds(KILLS).div_ceil(KILLS) {
        let mut points: Vec<&Point> =
            POINTS.iter().filter(|it| !OF_OTHERS.contains(&it.by)).collect();
        siege.numbers.shuffle(&mut points);
        for point in points {
            kill_at(&mut siege, point, round);
        }
    }
    siege.end();
}

/// Sets the failpoint; returns the file that names the killed process.
pub fn armed(cluster: &mut Cluster, point: &Point, nth: u64, file: &str) -> PathBuf {
    let file = cluster.path(file);
    let chosen = format!("{} {nth} {}", point.name, file.display());
    cluster.variables = vec![("GPOOL_FAILPOINT".to_owned(), chosen)];
    file.with_extension("killed")
}

fn kill_at(siege: &mut Siege, point: &Point, round: u64) {
    let bound = match point.by {
        By::Load => 20,
        By::SeldomLoad | By::LostShepherd | By::Start | By::End => 2,
        By::Prevention | By::FirstStart | By::Files | By::Move | By::Resume => 1,
    };
    let nth = 1 + siege.numbers.below(bound);
    siege.note(format!("{nth} {}", point.name));
    let killed = armed(&mut siege.cluster, point, nth, &format!("{}-{round}", point.name));
    if point.by == By::Prevention {
        let slow = ("GPOOL_SLOWPOINT".to_owned(), "agent-checked".to_owned());
        siege.cluster.variables.push(slow);
    }
    siege.kill_server();
    siege.cluster.launch();
    let mut is_dead = false;
    let who = until(&format!("{nth} times at {point:?}"), || {
        is_dead = !siege.cluster.is_running() || siege.cluster.has_died();
        // The killed process makes the file first, and then writes a line.
        let who = std::fs::read_to_string(&killed).ok().filter(|who| who.ends_with('\n'));
        if who.is_some() {
            return who;
        }
        match point.by {
            _ if is_dead => siege.cluster.launch(),
            // Started again in the next round, unless it has reached the point just now.
            By::Start | By::FirstStart if has_started(siege) => siege.kill_server(),
            By::End if siege.cluster.is_ready() => siege.cluster.signal_server(Signal::TERM),
            By::LostShepherd => drop(siege.kill_a_shepherd()),
            _ => {}
        }
        None
    });
    siege.n_kills += 1;
    siege.note(format!("{who:?} is dead"));
    siege.cluster.variables.clear();
    match shepherd_in(&who) {
        Some(job) => drop(siege.killed.insert(job, point.fate)),
        None if !point.name.starts_with("nursery") => {
            until_so(&format!("{who:?} is dead at {point:?}"), || {
                is_dead || siege.cluster.has_died()
            });
        }
        None => {}
    }
    if siege.cluster.is_running() {
        siege.cluster.until_ready();
    } else {
        siege.up();
    }
}

/// Whether the server answers, and has heard its nodes: their first reports are points of a start.
fn has_started(siege: &Siege) -> bool {
    if !siege.cluster.is_ready() {
        return false;
    }
    let ran = siege.cluster.gpool(["nodes", "--json"]);
    let nodes = serde_json::from_str::<serde_json::Value>(&ran.out).unwrap_or_default();
    let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
    !nodes.is_empty() && nodes.iter().all(|node| node["membership"] == "connected")
}

#[test]
fn killed_while_a_store_is_made_the_next_server_makes_it() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    for point in POINTS.iter().filter(|point| point.by == By::FirstStart) {
        let mut cluster = Cluster::unstarted(&["--devices", "none"]);
        let killed = armed(&mut cluster, point, 1, "point");
        cluster.launch();
        until_so(point.name, || cluster.has_died());
        assert!(killed.exists(), "{}: {}", point.name, cluster.log());
        cluster.variables.clear();
        cluster.up();
        assert_eq!(cluster.gpool(["run", "--", "true"]).code, 0, "{}", point.name);
        cluster.down(&[]);
        cluster.gpool(["verify"]).ok();
    }
}

/// The names of the points in the sources below a folder.
fn points_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            points_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let points = text.split("fail_point!(\"").skip(1);
            found.extend(points.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
}

#[test]
fn every_point_of_the_sources_is_tried() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = ["crates", "testing"].map(|it| std::fs::read_dir(root.join(it)).unwrap());
    let mut found = BTreeSet::new();
    for entry in crates.into_iter().flatten().flatten() {
        let sources = entry.path().join("src");
        if sources.is_dir() {
            points_in(&sources, &mut found);
        }
    }
    let listed: BTreeSet<String> = POINTS.iter().map(|point| point.name.to_owned()).collect();
    assert_eq!(listed.len(), POINTS.len(), "a point is listed twice");
    assert_eq!(found, listed);
}

#[test]
fn the_same_seed_gives_the_same_choices() {
    let choices = |seed| {
        let mut numbers = Numbers::new(seed);
        let mut all: Vec<u32> = (0..20).collect();
        numbers.shuffle(&mut all);
        (all, numbers.below(1000))
    };
    assert_eq!(choices(7), choices(7));
    assert_ne!(choices(7), choices(8));
}
