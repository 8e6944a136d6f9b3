//! The machine's clock is set forwards and backwards, and runs twice as fast. libfaketime changes
//! the time that the program sees, since the real clock belongs to the whole machine. The boot
//! clock, which measures durations, is not affected, as when an administrator sets the clock.

use std::path::PathBuf;

use gpool_wire::Job;
use serde_json::Value;

use crate::harness::{Cluster, Gate, skip, until_so};

const HOUR_MS: u64 = 3_600_000;

/// The clock that the server, its agent and its shepherds see.
pub struct Clock(PathBuf);

impl Clock {
    /// Gives a cluster that has not started a clock of its own; `None` without libfaketime.
    pub fn of(cluster: &mut Cluster) -> Option<Self> {
        let (clock, variables) = Self::of_program(cluster, "+0")?;
        cluster.variables.extend(variables);
        Some(clock)
    }

    /// The clock of one program, which has these variables.
    pub fn of_program(cluster: &Cluster, how: &str) -> Option<(Self, Vec<(String, String)>)> {
        let Some(library) = library() else {
            skip("libfaketime is not installed");
            return None;
        };
        let clock = Self(cluster.path("clock"));
        clock.set(how);
        let file = clock.0.display().to_string();
        let library = library.display().to_string();
        let variables = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some((clock, variables.to_vec()))
    }

    /// Sets the offset in libfaketime's notation: `+1h`, `-1h`, `+0 x2`.
    pub fn set(&self, how: &str) {
        let draft = self.0.with_extension("draft");
        std::fs::write(&draft, format!("{how}\n")).unwrap();
        std::fs::rename(draft, &self.0).unwrap();
    }
}

/// The library's path, in the folders of common distributions.
fn library() -> Option<PathBuf> {
    let libs = ["/usr/lib", "/usr/lib64"].map(PathBuf::from);
    let below = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut files = libs.into_iter().chain(below).map(|dir| dir.join("faketime/libfaketime.so.1"));
    files.find(|file| file.exists())
}

fn cluster(devices: &str) -> Option<(Cluster, Clock)> {
    let mut cluster = Cluster::unstarted(&["--devices", devices]);
    let clock = Clock::of(&mut cluster)?;
    cluster.up();
    Some((cluster, clock))
}

fn held(cluster: &Cluster) -> Job {
    let id = cluster.submit(["--hold", "--", "true"]);
    cluster.job(&id)
}

fn ms(time: gpool_wire::Time) -> u64 {
    time.0.get()
}

/// Waits until the server's clock has this offset from the machine's; new jobs show it.
fn until_server_is_at(cluster: &Cluster, offset_ms: i64) {
    until_so("the server sees its new time", || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let real = i64::try_from(now.as_millis()).unwrap();
        let seen = i64::try_from(ms(held(cluster).submitted_at)).unwrap();
        (seen - real - offset_ms).abs() < 60_000
    });
}

#[test]
fn a_clock_that_jumps_kills_and_loses_nothing() {
    let Some((mut cluster, clock)) = cluster("sim:1xH100-80G") else { return };
    let events = cluster.start(["events", "-o", "jsonl", "-n", "12"]);
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; exit 5", gate.line());
    // Half of the clock's jump.
    let runs = cluster.sh(&["--gpus", "1", "--time", "30m"], &line);
    until_so("it has begun", || cluster.stdout_of(&runs) == "begun\n");
    let waits = cluster.sh(&["--gpus", "1"], "exit 6");
    let short = cluster.sh(&["--time", "2s", "--grace", "1s"], "sleep 1000");
    cluster.until_is(&short, "running");
    let before = held(&cluster);

    clock.set("+1h");
    until_server_is_at(&cluster, i64::try_from(HOUR_MS).unwrap());
    let ahead = held(&cluster);
    assert!(ms(ahead.submitted_at) >= ms(before.submitted_at) + HOUR_MS);
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    assert_eq!(cluster.until_ended(&short).state.as_str(), "timed_out");

    // Two hours back in one step; times in the past do not change.
    clock.set("-1h");
    let short = cluster.sh(&["--time", "1s", "--grace", "1s"], "sleep 1000");
    assert!(ms(cluster.job(&short).submitted_at) >= ms(ahead.submitted_at));
    assert_eq!(cluster.until_ended(&short).state.as_str(), "timed_out");
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    assert_eq!(cluster.job(&waits).state.as_str(), "pending");

    // A server that starts in the past takes over the state of one that ran in the future.
    cluster.kill();
    cluster.up();
    until_server_is_at(&cluster, -i64::try_from(HOUR_MS).unwrap());
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    clock.set("+0 x2");
    let short = cluster.sh(&["--time", "1s", "--grace", "1s"], "sleep 1000");
    assert_eq!(cluster.until_ended(&short).state.as_str(), "timed_out");
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(5));
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(6));
    for id in [&runs, &waits] {
        assert_eq!(cluster.job(id).run.attempt, 1);
    }

    let times: Vec<u64> = events.end().ok().lines().map(time_of).collect();
    assert!(times.is_sorted(), "{times:?}");
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

/// The decayed usage of project `default`, in GPU-hours.
fn used(cluster: &Cluster) -> f64 {
    let quota = cluster.gpool(["quota", "-o", "json"]).json();
    quota["items"][0]["used"].as_f64().unwrap_or_else(|| panic!("{quota}"))
}

#[test]
fn decayed_usage_outlives_a_killed_server() {
    let Some((mut cluster, clock)) = cluster("sim:2xH100-80G") else { return };
    let id = cluster.sh(&["--gpus", "2"], "sleep 100000");
    cluster.until_is(&id, "running");
    clock.set("+10h");
    until_server_is_at(&cluster, i64::try_from(10 * HOUR_MS).unwrap());
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    // Two GPUs for ten hours, partly decayed; a week decays it further, a restart does not.
    let before = used(&cluster);
    assert!((19.0..20.1).contains(&before), "{before}");
    cluster.kill();
    cluster.up();
    let after = used(&cluster);
    assert!(after <= before && before - after < 0.5, "{before} → {after}");
    clock.set("+178h");
    until_server_is_at(&cluster, i64::try_from(178 * HOUR_MS).unwrap());
    let later = used(&cluster);
    assert!((later * 2.0 - before).abs() < 0.5, "half counts after seven days: {before} → {later}");
}

fn time_of(line: &str) -> u64 {
    let event: Value = serde_json::from_str(line).unwrap();
    let time: gpool_wire::Time = serde_json::from_value(event["time"].clone()).unwrap();
    ms(time)
}

#[test]
fn a_clock_set_back_does_not_block_a_gpu_that_is_clean_again() {
    let Some((cluster, clock)) = cluster("sim:1xH100-80G") else { return };
    cluster.gpool(["sim", "add-process", "0", "--pid", "4000001", "--user", "eve"]).ok();
    cluster.until_gpu_is(0, "unmanaged");
    cluster.gpool(["sim", "remove-process", "0", "--pid", "4000001"]).ok();
    clock.set("-1h");
    assert_eq!(cluster.gpool(["run", "--gpus", "1", "--", "sh", "-c", "exit 4"]).code, 4);
}
