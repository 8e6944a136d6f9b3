//! The instructions of work that waits for nothing, as callgrind counts them: unlike a time, no
//! load of the machine changes such a number. Each has a budget in `instructions.txt`, in the build
//! of the tests. `GPOOL_BLESS=1` writes the file; the commit says why a number changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::render::clock::Clock;
use gpool_cli::render::jobs::JOBS;
use gpool_cli::render::list::{Appearance, select};
use gpool_cli::render::view::View;
use gpool_journal::codec;
use gpool_lab::bench::synthetic::{Fleet, job};
use gpool_model::{Event, Revision};
use gpool_store::Record;
use serde_json::json;

use crate::things;

/// The largest difference from a budget, in percent.
const LEEWAY: u64 = 3;
const NODES: u32 = 100;
const PENDING: u32 = 1000;

/// Callgrind counts only below this function.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

fn fleet() -> Fleet {
    let mut fleet = Fleet::new(NODES).unwrap();
    fleet.fill(PENDING, 1, job).unwrap();
    fleet
}

#[test]
fn cycle() {
    let mut fleet = fleet();
    let task = fleet.tasks()[0];
    let events = vec![fleet.end(task).unwrap(), fleet.submission(0, vec![job(0)])];
    counted(|| fleet.step(events).unwrap());
    counted(|| fleet.step(vec![Event::TimerFired]).unwrap());
}

#[test]
fn decode() {
    let records = fleet().records();
    let row = |record: &gpool_model::record::Record| Record {
        kind: record.key().kind.as_str().to_owned(),
        key: record.key().key,
        revision: Revision(1),
        value: codec::json(record),
    };
    let rows: Vec<Record> = records.iter().map(row).collect();
    counted(|| rows.iter().map(|row| codec::decode(row).unwrap()).collect::<Vec<_>>());
}

#[test]
fn queue() {
    let jobs: Vec<_> = (0..200).map(|n| things::job(json!({ "id": n.to_string() }))).collect();
    let text = serde_json::to_string(&jobs).unwrap();
    let (clock, marked) = (Clock::new(true), BTreeSet::new());
    let view = View { clock: &clock, now: things::now(), me: "ana" };
    let look = Appearance {
        view,
        width: None,
        colors: false,
        footer: "",
        marked: &marked,
        title: "",
        bars: None,
    };
    let text = counted(|| {
        let rows = select(&JOBS, serde_json::from_str(&text).unwrap(), &ListFlags::default());
        JOBS.text(&rows.unwrap(), Format::Table, &[], &look).unwrap()
    });
    assert_eq!(text.lines().count(), 201, "{text}");
}

#[test]
fn no_work_takes_more_instructions_than_its_budget() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/instructions.txt");
    let counts: BTreeMap<&str, u64> =
        ["cycle", "decode", "queue"].into_iter().map(|name| (name, count(name))).collect();
    if std::env::var_os("GPOOL_BLESS").is_some() {
        let lines = counts.iter().map(|(name, count)| format!("{name} {count}\n"));
        fs::write(&path, format!("{}\n{}", compiler(), lines.collect::<String>())).unwrap();
        return;
    }
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    let made_by = lines.next().unwrap_or_default();
    if made_by != compiler() {
        println!("skipped: the budgets are those of {made_by}");
        return;
    }
    let budgets: BTreeMap<&str, u64> = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, count)| (name, count.parse().unwrap()))
        .collect();
    let others = counts.iter().filter(|(name, count)| {
        budgets.get(*name).is_none_or(|budget| budget.abs_diff(**count) * 100 > budget * LEEWAY)
    });
    let others: Vec<_> = others.collect();
    assert!(
        others.is_empty(),
        "{others:?} differ by more than {LEEWAY} % from {budgets:?}; if that is meant, write the \
         budgets with GPOOL_BLESS=1, and say why in the commit"
    );
}

/// The compiler that makes the instructions.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs one of the tests above below callgrind.
fn count(name: &str) -> u64 {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.args(["--collect-atstart=no", "--toggle-collect=*instructions*counted*"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("instructions::{name}"), "--test-threads=1"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0);
    assert!(output.status.success() && count > 0, "{name}: {text}");
    count
}
