//! The measurements: parts of `gpool bench`, the CPU time of simulations, and calls of the shim.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use regex::Regex;
use serde_json::Value;

use super::build::Build;
use crate::step;

/// One thing to measure in pairs.
pub struct Measurement {
    /// Its name for `--only`.
    pub name: &'static str,
    /// The number of pairs.
    pub n_pairs: usize,
    kind: MeasurementKind,
    /// A word that starts with `@` is a file of the traces.
    arguments: &'static [&'static str],
}

enum MeasurementKind {
    /// A part of `gpool-lab bench`: its figures.
    Bench,
    /// A simulation by `gpool-lab`: its CPU time.
    Simulation,
    /// The benchmark of the shim: the time of each call.
    Shim,
}

/// All, in running order.
pub const MEASUREMENTS: &[Measurement] = &[
    bench("start", 5, &["--starts", "60"]),
    bench("submit", 5, &["--submissions", "4000"]),
    bench("drain", 5, &["--jobs", "400"]),
    bench("cycle", 3, &["--nodes", "10000", "--pending", "100000"]),
    bench("shares", 3, &["--nodes", "10000", "--pending", "100000"]),
    bench("pending", 3, &["--pending", "50000"]),
    bench("viewers", 3, &["--seconds", "3", "--pending", "50000"]),
    simulation("fair", &["queue", "--cluster", "80x8", "--policy", "fair", "--trace", PHILLY]),
    simulation("las", &["queue", "--cluster", "80x8", "--policy", "las", "--trace", PHILLY]),
    simulation("users", &["queue", "--cluster", "80x8", "--policy", "users", "--trace", PHILLY]),
    simulation(
        "fgd",
        &[
            "packing",
            "--nodes",
            "@openb_nodes.csv",
            "--tasks",
            "@openb_pods.csv.gz",
            "--policy",
            "fgd",
        ],
    ),
    Measurement { name: "shim", n_pairs: 3, kind: MeasurementKind::Shim, arguments: &[] },
];

const PHILLY: &str = "@philly_2017-10.csv.gz";

/// One value of one run.
pub struct Reading {
    /// A description for people.
    pub what: String,
    pub unit: String,
    pub value: f64,
    /// Whether more is better, as of a rate.
    pub is_more_better: bool,
}

const fn bench(
    name: &'static str,
    n_pairs: usize,
    arguments: &'static [&'static str],
) -> Measurement {
    Measurement { name, n_pairs, kind: MeasurementKind::Bench, arguments }
}

const fn simulation(name: &'static str, arguments: &'static [&'static str]) -> Measurement {
    Measurement { name, n_pairs: 3, kind: MeasurementKind::Simulation, arguments }
}

impl Measurement {
    /// Measures one build once. Returns its values by name; none if the traces are not there.
    ///
    /// # Errors
    /// The program fails, or prints no figures.
    pub fn run(&self, build: &Build) -> anyhow::Result<BTreeMap<String, Reading>> {
        match self.kind {
            MeasurementKind::Bench => self.bench(build),
            MeasurementKind::Simulation => self.simulation(build),
            MeasurementKind::Shim => shim(build),
        }
    }

    fn bench(&self, build: &Build) -> anyhow::Result<BTreeMap<String, Reading>> {
        let mut command = step::command(build.lab(), &["--json", "bench"]);
        command.args(["--only", self.name]).args(self.arguments);
        let output = command.output().context("starting gpool-lab")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("its figures")?;
        let figures = report["parts"].as_array().into_iter().flatten();
        let figures = figures.flat_map(|part| part["figures"].as_array().into_iter().flatten());
        Ok(figures.filter_map(reading).collect())
    }

    fn simulation(&self, build: &Build) -> anyhow::Result<BTreeMap<String, Reading>> {
        let Some(traces) = traces() else {
            println!("{}: skipped: no data", self.name);
            return Ok(BTreeMap::new());
        };
        let word = |word: &&str| match word.strip_prefix('@') {
            Some(file) => traces.join(file).into_os_string(),
            None => (*word).into(),
        };
        let mut command = step::command(build.lab(), &["simulate"]);
        command.args(self.arguments.iter().map(word));
        let before = cpu_of_children()?;
        let output = command.output().context("starting gpool-lab")?;
        let value = cpu_of_children()? - before;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let what = format!("simulation {}", self.name);
        let reading = Reading { what, unit: "CPU-s".to_owned(), value, is_more_better: false };
        Ok([(self.name.to_owned(), reading)].into())
    }
}

/// Runs the benchmark of the shim, which prints a line for each call.
fn shim(build: &Build) -> anyhow::Result<BTreeMap<String, Reading>> {
    let line = Regex::new("(?m)^(.+): .*through the shim ([0-9.]+) ns")?;
    let output = step::command(build.shim(), &[]).output().context("starting the benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let readings = line.captures_iter(&text).map(|it| {
        let what = format!("{} through the shim", &it[1]);
        let value = it[2].parse()?;
        let reading = Reading { what, unit: "ns".to_owned(), value, is_more_better: false };
        Ok((it[1].to_owned(), reading))
    });
    let readings: BTreeMap<String, Reading> = readings.collect::<anyhow::Result<_>>()?;
    if readings.is_empty() {
        bail!("the benchmark of the shim printed no figures");
    }
    Ok(readings)
}

/// A figure that grows with the rate of submissions.
const LOAD: &str = "submit_load_cores";

/// Reads a figure. A rate is better if it is higher, all else if it is lower.
fn reading(figure: &Value) -> Option<(String, Reading)> {
    let name = figure["name"].as_str().filter(|name| *name != LOAD)?;
    let unit = figure["unit"].as_str()?.to_owned();
    let is_more_better = figure["goal"]["above"].is_number() || unit.ends_with("/s");
    let what = figure["what"].as_str()?.to_owned();
    let value = figure["value"].as_f64().filter(|value| *value > 0.0)?;
    Some((name.to_owned(), Reading { what, unit, value, is_more_better }))
}

/// The folder of public traces beside the repository.
fn traces() -> Option<PathBuf> {
    step::root().ancestors().map(|it| it.join("shared/traces")).find(|it| it.is_dir())
}

/// The CPU time of all children that ended, in seconds: `cutime` and `cstime` of proc_pid_stat(5).
fn cpu_of_children() -> anyhow::Result<f64> {
    /// Ticks a second in `/proc`, on every architecture with Rust's standard library.
    const USER_HZ: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    // The second field, a name in parentheses, may have spaces; the third is the first after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(16 - 3).take(2).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<_, _>>().context("/proc/self/stat")?;
    Ok(ticks / USER_HZ)
}
