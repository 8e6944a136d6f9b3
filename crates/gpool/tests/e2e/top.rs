//! `gpool top` on a terminal, and once as tables.

use gpool_stub_nvml::Process;
use rustix::process::Signal;

use crate::harness::{Cluster, Running, Tty, until_so};
use crate::nvml;

fn with_jobs() -> (Cluster, [String; 3]) {
    let cluster = Cluster::new("sim:2xH100-80G");
    let line = "echo its output; exec sleep 1000";
    let one = cluster.submit(["--gpus", "2", "--name", "train", "--", "sh", "-c", line]);
    cluster.until_is(&one, "running");
    let two = cluster.submit(["--gpus", "1", "--name", "eval", "--", "true"]);
    let three = cluster.submit(["--hold", "--name", "sweep", "--", "true"]);
    (cluster, [one, two, three])
}

#[test]
fn a_job_is_found_and_cancelled_and_the_terminal_is_restored() {
    let (cluster, [one, two, three]) = with_jobs();
    let mut tty = Tty::start(&cluster, &["top", "--every", "100ms"]);
    tty.until_shows("Queue 3");
    assert!(tty.is_raw(), "keys are not echoed");
    tty.until_shows("2 of 2 GPUs held");
    tty.until_shows("its output");
    // The arrow as a terminal sends it.
    tty.types("\x1b[B");
    tty.until_shows(&format!("Job {two} eval"));
    tty.until_shows("It needs 1 GPU");
    tty.types("/swee");
    tty.until_shows("Queue 1 of 3");
    tty.types("\r");
    tty.types("p");
    tty.until_shows(&format!("can't pause job {three}: it is held"));
    tty.types("c");
    tty.until_shows(&format!("cancel job {three} (sweep"));
    tty.types("y");
    tty.until_shows(&format!("job {three}: cancelled"));
    cluster.until_is(&three, "cancelled");
    tty.until_shows("Queue 0 of 2");
    tty.types("\x1b");
    // With the next key it would be another one.
    tty.until_shows("Queue 2");
    tty.resize(20, 60);
    tty.types("q");
    assert_eq!(tty.end(), 0);
    tty.until_shows("\x1b[?1049l\x1b[?25h");
    assert_eq!(cluster.job(&one).state.as_str(), "running");
    assert_eq!(cluster.job(&two).state.as_str(), "pending");
}

#[test]
fn a_signal_or_a_lost_server_leaves_the_terminal_as_it_was() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    for signal in [Signal::TERM, Signal::HUP] {
        let tty = &mut Tty::start(&cluster, &["top", "--every", "100ms"]);
        tty.until_shows("no jobs");
        tty.signal(signal);
        assert_eq!(tty.end(), 128 + signal.as_raw());
        tty.until_shows("\x1b[?1049l");
    }
    let mut tty = Tty::start(&cluster, &["top", "--every", "100ms"]);
    tty.until_shows("no jobs");
    cluster.kill();
    tty.until_shows("no server answers");
    cluster.up();
    cluster.submit(["--hold", "--name", "later", "--", "true"]);
    tty.until_shows("later");
    tty.types("q");
    assert_eq!(tty.end(), 0);
    cluster.kill();
    cluster.gpool(["top"]).refused(3, &["gpool top --local"]);
}

#[test]
fn without_a_terminal_tables_are_printed_once() {
    let (cluster, [one, ..]) = with_jobs();
    let text = cluster.gpool(["top"]).ok();
    for word in ["MEM GiB", "2 busy", "WHERE / REASON", "train", "3 rows", "sweep"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    let document = cluster.gpool(["top", "--json"]).json();
    assert_eq!(document["gpus"][0]["job"], one.as_str());
    assert_eq!(document["jobs"][0]["name"], "train");
    assert_eq!(document["status"]["gpus"]["busy"], 2);
}

#[test]
fn a_machine_is_shown_without_a_server() {
    let mut device = nvml::device(0);
    let mut own = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let process = Process { pid: own.id(), memory: Some(3 << 30) };
    device.processes = Some(vec![process]);
    let (cluster, _driver) = nvml::cluster_of(vec![device]);
    let variable = |name: &str| {
        let found = cluster.variables.iter().find(|(it, _)| it == name).cloned();
        found.unwrap_or_else(|| panic!("no {name} in {:?}", cluster.variables))
    };
    let (name, library) = variable("GPOOL_NVML_PATH");
    let mut command = cluster.command();
    command.args(["--server", "/nowhere", "top", "--local"]).env(&name, &library);
    let text = Running::start(&mut command, None).end().ok();
    let pid = own.id().to_string();
    for word in ["A100", "41 °C", "7%", "sleep 1000", &pid, "3.0 GiB"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    command.arg("--json");
    let document = Running::start(&mut command, None).end().json();
    assert_eq!(document["processes"][0]["command"], "sleep 1000");
    assert_eq!(document["gpus"][0]["utilization"], 0.07);
    let vars = [(&*name, &*library)];
    let mut tty = Tty::start_with(&cluster, &["top", "--local", "--every", "100ms"], &vars);
    tty.until_shows("Processes 1");
    tty.types("T");
    tty.until_shows(&format!("terminate process {pid} (sleep 1000)? y / n"));
    tty.types("y");
    tty.until_shows(&format!("process {pid} got signal 15"));
    until_so("the process ends", || own.try_wait().unwrap().is_some());
    tty.types("q");
    assert_eq!(tty.end(), 0);
}

#[test]
fn a_machine_without_gpus_says_so() {
    let cluster = Cluster::unstarted(&["--devices", "none"]);
    let mut command = cluster.command();
    command.args(["top", "--local", "--once", "--ascii"]).env("GPOOL_NVML_PATH", "/nowhere");
    let text = Running::start(&mut command, None).end().ok();
    assert!(text.contains("no GPUs: ") && text.contains("/nowhere"), "{text}");
    assert!(text.contains(" CPU") && text.contains("memory "), "{text}");
    let vars = [("GPOOL_NVML_PATH", "/nowhere"), ("NO_COLOR", "1"), ("LC_ALL", "C")];
    let mut tty = Tty::start_with(&cluster, &["top", "--local"], &vars);
    tty.until_shows("= Processes 0");
    tty.until_shows("load ");
    tty.types("q");
    assert_eq!(tty.end(), 0);
    let seen = tty.seen.lock().unwrap().clone();
    assert!(seen.is_ascii(), "{seen}");
    assert!(!seen.contains(";32m") && !seen.contains(";31m"), "{seen}");
}
