//! The enforcement of shares: real programs in jobs, stub drivers, and the library before them.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use gpool_model::enforcement::Mechanism;
use rustix::process::{Pid, Signal};

use crate::harness::{Cluster, Running, is_root, skip, until, until_so};
use crate::nvml::{Driver, cluster_of, cluster_with, device};
use crate::users::{NOBODY, as_user};

pub const GIB: i64 = 1 << 30;
pub const OK: i64 = 0;
pub const OUT_OF_MEMORY: i64 = 2;

/// The C program that executes commands with the CUDA driver; `None`, with a notice, without
/// compiler.
pub fn compiled() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (path, source) = (folder.path().join("cuda"), "../shim/tests/programs/cuda.c");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let mut command = Command::new("cc");
        command.args(["-O2", "-o"]).arg(&path).arg(source).args(["-ldl", "-lpthread"]);
        let status = command.status().ok()?;
        assert!(status.success(), "cuda.c can't be compiled");
        Some((folder, path))
    });
    if program.is_none() {
        skip("there is no C compiler");
    }
    program.as_ref().map(|(_, path)| path.as_path())
}

/// A cluster with devices of 80 GiB; the driver keeps one GiB of each.
fn cluster(n_devices: u32) -> (Cluster, Driver) {
    cluster_of((0..n_devices).map(device).collect())
}

/// A program in a job: it reads commands from one file and writes results to another.
pub struct Program<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    n_lines: usize,
}

/// The shell line that runs a program of this name.
pub fn line_of(name: &str) -> String {
    let program = compiled().unwrap().display();
    format!("tail -n +1 -f in-{name} | sh -c 'echo $$ >pid-{name}; exec {program} >out-{name}'")
}

impl<'a> Program<'a> {
    pub fn new(cluster: &'a Cluster, name: &'static str) -> Self {
        let file = cluster.work().join(format!("in-{name}"));
        std::fs::write(file, "").unwrap();
        Self { cluster, name, n_lines: 0 }
    }

    /// Starts a job of one program, and initialises the driver there.
    pub fn start(cluster: &'a Cluster, name: &'static str, flags: &[&str]) -> (String, Self) {
        let mut program = Self::new(cluster, name);
        let id = cluster.sh(flags, &line_of(name));
        program.ready();
        (id, program)
    }

    pub fn ready(&mut self) {
        assert_eq!(self.code("init"), OK);
        assert_eq!(self.code("context 0"), OK);
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.cluster.work().join(format!("{kind}-{}", self.name))
    }

    /// Goes on with a program that has executed commands before, after a restart of the cluster.
    pub fn again(cluster: &'a Cluster, name: &'static str, n_lines: usize) -> Self {
        Self { cluster, name, n_lines }
    }

    /// The number of commands so far.
    pub fn n_lines(&self) -> usize {
        self.n_lines
    }

    /// Executes a command, and returns the numbers of its result.
    pub fn run(&mut self, line: &str) -> Vec<i64> {
        self.send(line);
        self.answer()
    }

    /// Sends a command.
    pub fn send(&mut self, line: &str) {
        let mut commands = OpenOptions::new().append(true).open(self.file("in")).unwrap();
        writeln!(commands, "{line}").unwrap();
        self.n_lines += 1;
    }

    /// Whether the last command has a result.
    pub fn is_done(&self) -> bool {
        let text = std::fs::read_to_string(self.file("out")).unwrap_or_default();
        text.matches('\n').count() >= self.n_lines
    }

    /// The numbers of the last command's result.
    pub fn answer(&mut self) -> Vec<i64> {
        let words = until("a result", || {
            let text = std::fs::read_to_string(self.file("out")).unwrap_or_default();
            let mut lines = text.split_inclusive('\n').skip(self.n_lines - 1);
            lines.next().and_then(|line| line.strip_suffix('\n')).map(str::to_owned)
        });
        words.split(' ').map(|word| word.parse().unwrap_or_else(|_| panic!("{words}"))).collect()
    }

    pub fn code(&mut self, line: &str) -> i64 {
        self.run(line)[0]
    }

    pub fn alloc(&mut self, gib: i64) -> i64 {
        self.code(&format!("alloc {}", gib * GIB))
    }

    fn kill(self) {
        let pid = std::fs::read_to_string(self.file("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}

#[test]
fn a_share_is_capped_and_the_job_sees_its_size() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let (_, mut program) = Program::start(&cluster, "one", &["--gpus", "0.5"]);
    let info = program.run("info");
    assert_eq!((info[0], info[2]), (OK, 40 * GIB), "{info:?}");
    assert!(info[1] < 40 * GIB, "the context counts: {info:?}");
    assert_eq!(program.alloc(40), OUT_OF_MEMORY, "with the context it is more than the share");
    assert_eq!(program.alloc(39), OK);
    assert_eq!(program.alloc(1), OUT_OF_MEMORY);
    assert_eq!(program.run("nvml 0")[1], 40 * GIB);
    let gpu = cluster.gpu(0);
    assert_eq!((&*gpu.shares[0].enforcement, &*gpu.enforcement.share), ("capped", "capped"));
    until_so("the driver's figure is read", || {
        cluster.gpu(0).memory_used.is_some_and(|used| used >= 40 << 30)
    });
    let share = cluster.gpu(0).shares.swap_remove(0);
    assert_eq!((share.memory_over, share.counted), (None, true));
}

#[test]
fn a_share_grows_to_its_limit_into_memory_that_no_job_uses() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let (_, mut grows) = Program::start(&cluster, "grows", &["--gpus", "0.25:0.8"]);
    let address = grows.run(&format!("alloc {}", 60 * GIB));
    assert_eq!(address[0], OK, "the rest of the device is free");
    assert_eq!(grows.alloc(4), OUT_OF_MEMORY, "its limit is 64 GiB");
    assert_eq!(grows.code(&format!("free {}", address[1])), OK);
    let (_, mut beside) = Program::start(&cluster, "beside", &["--gpus", "0.5"]);
    let address = grows.run(&format!("alloc {}", 45 * GIB));
    assert_eq!(address[0], OK, "the other job does not use its 40 GiB");
    assert_eq!(beside.alloc(20), OK);
    assert_eq!(grows.alloc(15), OUT_OF_MEMORY, "nothing is free");
    assert_eq!(grows.code(&format!("free {}", address[1])), OK);
    assert_eq!(beside.alloc(19), OK, "its share");
}

#[test]
fn a_killed_process_gives_its_memory_back() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let [mut first, mut second] = ["first", "second"].map(|name| Program::new(&cluster, name));
    let mut line = String::new();
    for name in ["first", "second"] {
        write!(line, "({}) & ", line_of(name)).unwrap();
    }
    cluster.sh(&["--gpus", "0.5"], &format!("{line} wait"));
    first.ready();
    second.ready();
    assert_eq!(first.alloc(30), OK);
    assert_eq!(second.alloc(30), OUT_OF_MEMORY, "both share the job's memory");
    first.kill();
    assert_eq!(until("memory of the dead", || Some(second.alloc(30)).filter(|it| *it == OK)), OK);
}

#[test]
fn the_cap_outlives_the_server_and_growth_works_again() {
    if compiled().is_none() {
        return;
    }
    let (mut cluster, _driver) = cluster(1);
    let (id, _) = Program::start(&cluster, "one", &["--gpus", "0.25:0.8"]);
    cluster.kill();
    // An earlier version, and the ledger of a task that ended with its shepherd.
    let [shim, ledger] = ["shim/0123456789abcdef", "ledgers/99#1-0"];
    for folder in [shim, ledger] {
        std::fs::create_dir(cluster.state().join(folder)).unwrap();
    }
    let mut program = Program::again(&cluster, "one", 2);
    assert_eq!(program.alloc(30), OUT_OF_MEMORY, "without agent nothing grows");
    assert_eq!(program.alloc(15), OK, "what is guaranteed");
    cluster.up();
    cluster.until_is(&id, "running");
    let mut program = Program::again(&cluster, "one", 4);
    assert_eq!(program.alloc(70), OUT_OF_MEMORY, "more than its limit");
    assert_eq!(program.alloc(30), OK, "growth works again");
    let ledgers = cluster.state().join("ledgers");
    assert_eq!(std::fs::read_dir(&ledgers).unwrap().count(), 1);
    assert!(cluster.state().join(shim).exists(), "the job may have loaded it");
    cluster.gpool(["cancel", &id]).ok();
    until_so("its ledger is removed", || std::fs::read_dir(&ledgers).unwrap().count() == 0);
    cluster.kill();
    cluster.up();
    until_so("the old version is removed", || !cluster.state().join(shim).exists());
}

#[test]
fn programs_without_cuda_and_the_search_path_of_the_user_are_kept() {
    let (cluster, _driver) = cluster(1);
    let line = "echo $LD_LIBRARY_PATH; ls -d /; cat /proc/self/maps | grep -c libcuda";
    let mut command = cluster.command();
    command.env("LD_LIBRARY_PATH", "/opt/mine:/opt/other");
    command.args(["run", "--gpus", "0.5", "--", "sh", "-c", line]);
    let out = Running::start(&mut command, None).end().out;
    let shim = cluster.state().join("shim");
    let lines: Vec<&str> = out.lines().collect();
    let [search, root, n_mapped] = lines[..] else { panic!("{out}") };
    assert!(search.starts_with(shim.to_str().unwrap()), "{search}");
    assert!(search.ends_with(":/opt/mine:/opt/other"), "{search}");
    assert_eq!((root, n_mapped), ("/", "0"));
    let whole = cluster.gpool(["run", "--gpus", "1", "--", "printenv", "LD_LIBRARY_PATH"]);
    assert_eq!((whole.out.as_str(), whole.code), ("", 1), "a whole GPU needs no cap");
}

#[test]
fn a_job_that_bypasses_the_cap_is_seen_by_the_drivers_figures() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let mut program = Program::new(&cluster, "one");
    let driver = cluster.path("driver");
    let line = format!("export LD_LIBRARY_PATH={}; {}", driver.display(), line_of("one"));
    let id = cluster.sh(&["--gpus", "0.5"], &line);
    program.ready();
    assert_eq!(program.alloc(60), OK, "nothing stops it");
    until_so("it is reported", || {
        cluster.gpu(0).shares.iter().any(|share| share.memory_over == Some(60 << 30))
    });
    // The next one is cancelled.
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    cluster.gpool(["policy", "set", "over_limit=cancel"]).ok();
    let mut program = Program::new(&cluster, "two");
    let line = line.replace("-one", "-two");
    let id = cluster.sh(&["--gpus", "0.5"], &line);
    program.ready();
    assert_eq!(program.alloc(60), OK, "nothing stops it");
    let ended = cluster.until_ended(&id);
    let why = "cancelled by the policy for jobs above their GPU memory limit";
    assert!(ended.run.cause_text.unwrap().contains(why));
}

#[test]
fn a_job_that_clears_its_count_is_seen_by_the_drivers_figures() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let mut program = Program::new(&cluster, "one");
    // The slots of the processes begin at the second block.
    let lie = "dd if=/dev/zero of=$GPOOL_LEDGER/usage bs=64 seek=1 count=64 conv=notrunc";
    let line = format!("(until [ -e lie ]; do sleep 0.01; done; {lie}; touch lied) & ");
    cluster.sh(&["--gpus", "0.25"], &(line + &line_of("one")));
    program.ready();
    assert_eq!(program.alloc(15), OK);
    std::fs::write(cluster.work().join("lie"), "").unwrap();
    until_so("it has lied", || cluster.work().join("lied").exists());
    assert_eq!(program.alloc(15), OK, "the library believes the file");
    until_so("it is reported", || {
        let shares = cluster.gpu(0).shares;
        shares.iter().any(|it| it.memory_over == Some(30 << 30) && it.memory_granted.is_some())
    });
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("uses 30 GiB of GPU 0, its limit is 20 GiB"), "{table}");
}

#[test]
fn memory_that_was_not_granted_is_reported_below_the_limit_too() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let mut program = Program::new(&cluster, "one");
    let driver = cluster.path("driver");
    let line = format!("export LD_LIBRARY_PATH={}; {}", driver.display(), line_of("one"));
    cluster.sh(&["--gpus", "0.25:0.8"], &line);
    program.ready();
    assert_eq!(program.alloc(30), OK);
    until_so("it is reported", || {
        let shares = cluster.gpu(0).shares;
        shares.iter().any(|share| share.memory_granted == Some(20 << 30))
    });
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("uses 30 GiB of GPU 0, it was granted 20 GiB"), "{table}");
}

#[test]
fn a_job_of_another_user_is_capped_and_grows() {
    let Some(compiled) = compiled().filter(|_| is_root()) else {
        return skip("only root can act as another user");
    };
    let (cluster, _driver) = cluster(1);
    let open = |name: &str, mode| {
        std::fs::set_permissions(cluster.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_gpool")), "gpool"), (compiled, "work/cuda")] {
        assert!(Command::new("cp").arg(from).arg(cluster.path(to)).status().unwrap().success());
        open(to, 0o755);
    }
    // The stub drivers of all users have their state in common.
    std::fs::create_dir_all(cluster.path("driver/stub-nvml.live")).unwrap();
    std::fs::write(cluster.path("driver/stub-nvml.live/lock"), "").unwrap();
    open("driver/stub-nvml.live/lock", 0o666);
    for name in ["work", "home", "driver", "driver/stub-nvml.live"] {
        open(name, 0o777);
    }
    let mut program = Program::new(&cluster, "one");
    let line = "tail -n +1 -f in-one | ./cuda dlsym >out-one";
    let submit = ["submit", "--gpus", "0.25:0.8", "--", "sh", "-c", line];
    let ran = as_user(&cluster, NOBODY, &submit);
    let id = ran.ok().trim().to_owned();
    program.ready();
    assert_eq!(program.alloc(70), OUT_OF_MEMORY);
    assert_eq!(program.alloc(60), OK);
    let ledgers = cluster.state().join("ledgers");
    let ledger = std::fs::read_dir(&ledgers).unwrap().next().unwrap().unwrap().path();
    let owner = |name| std::fs::metadata(ledger.join(name)).unwrap().uid();
    assert_eq!((owner("grants"), owner("usage"), owner("socket")), (0, NOBODY, NOBODY));
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
}

#[test]
fn the_levels_and_mechanisms_of_each_gpu_are_shown() {
    let (cluster, _driver) = cluster(2);
    let report = cluster.gpool(["doctor"]).out;
    // As root, where the kernel has control groups of version 2, other GPUs can't be opened.
    let whole = match report.contains("lab1:0,1: whole GPUs isolated, shares capped") {
        true => "isolated",
        false => "monitored",
    };
    assert!(is_root() || whole == "monitored", "{report}");
    let levels = format!("{whole}, shares capped");
    assert!(report.contains(&format!("lab1:0,1: whole GPUs {levels}")), "{report}");
    assert!(report.contains("lab1:0,1: works"), "{report}");
    let limits = report.lines().find(|line| line.starts_with("driver limits")).unwrap();
    assert!(limits.contains("lab1:0,1: does not work: "), "{limits}");
    let table = cluster.gpool(["gpus", "-o", "wide"]).ok();
    assert!(table.contains(&levels), "{table}");
    let page = cluster.gpool(["gpus", "1"]).ok();
    assert!(page.contains(&format!("enforced   {levels}")), "{page}");
}

#[test]
fn newer_drivers_cap_a_job_that_bypasses_the_library() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster_with("615.71.09", vec![device(0)]);
    let levels = cluster.gpu(0).enforcement;
    let limits = levels.mechanisms.iter().find(|it| it.name == Mechanism::DriverLimits).unwrap();
    if let Some(why) = &limits.why_not {
        assert!(!is_root() || why.contains("cgroup"), "{why}");
        return skip(why);
    }
    let mut program = Program::new(&cluster, "one");
    let driver = cluster.path("driver");
    let line = format!("export LD_LIBRARY_PATH={}; {}", driver.display(), line_of("one"));
    let id = cluster.sh(&["--gpus", "0.25:0.5"], &line);
    program.ready();
    assert_eq!(program.alloc(41), OUT_OF_MEMORY);
    assert_eq!(program.alloc(40), OK, "its limit");
    cluster.gpool(["edit", &id, "--gpus", "0.25:0.75"]).ok();
    until_so("the driver has the new limit", || program.alloc(20) == OK);
    assert_eq!(program.alloc(1), OUT_OF_MEMORY);
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    // The next job on the device has a limit of its own.
    let (_, mut next) = Program::start(&cluster, "next", &["--gpus", "0.75"]);
    assert_eq!(next.alloc(59), OK);
}

#[test]
fn a_damaged_ledger_file_is_reported_and_harms_no_other_job() {
    if compiled().is_none() {
        return;
    }
    let (cluster, _driver) = cluster(1);
    let id = cluster.sh(&["--gpus", "0.25"], "truncate -s 0 $GPOOL_LEDGER/usage; sleep 1000");
    until_so("it is reported", || {
        cluster.gpu(0).shares.iter().any(|share| share.job == id && !share.counted)
    });
    let (_, mut other) = Program::start(&cluster, "other", &["--gpus", "0.25:0.8"]);
    assert_eq!(other.alloc(40), OK);
    assert!(cluster.is_running());
}

#[test]
fn a_job_gets_the_enforcement_that_it_requests_or_is_refused() {
    let (cluster, _driver) = cluster(1);
    let capped = cluster.submit(["--gpus", "0.5", "--enforce", "capped", "--", "true"]);
    assert_eq!(cluster.until_ended(&capped).run.exit_code, Some(0));
    assert_eq!(cluster.job(&capped).request.enforce.as_deref(), Some("capped"));
    let submit = |words: &[&str]| cluster.gpool(["submit"].iter().chain(words).copied());
    let isolated = ["--gpus", "0.5", "--enforce", "isolated", "--", "true"];
    submit(&isolated).refused(4, &["\"isolated\"", "\"capped\"", "--enforce capped"]);
    submit(&["--gpus", "0.5", "--enforce", "strong", "--", "true"])
        .refused(2, &["strong", "booked, monitored, capped or isolated"]);
    submit(&["--enforce", "capped", "--", "true"]).refused(2, &["requests no GPU"]);
    let held = cluster.submit(["--hold", "--gpus", "0.5", "--enforce", "capped", "--", "true"]);
    cluster.gpool(["edit", &held, "--gpus", "0.25"]).ok();
    let job = cluster.job(&held);
    assert_eq!(
        (job.request.gpus_text(), job.request.enforce.as_deref()),
        ("0.25", Some("capped")),
        "other GPUs"
    );
    let waits = cluster.submit(["--allow-unsatisfiable"].iter().chain(&isolated));
    let why = cluster.why(&waits);
    assert!(why.contains("\"isolated\""), "{why}");
}

#[test]
fn simulated_devices_are_monitored() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gpu = cluster.gpu(0);
    assert_eq!((&*gpu.enforcement.share, &*gpu.enforcement.whole), ("monitored", "monitored"));
    let submit = ["submit", "--gpus", "0.5", "--enforce", "capped", "--", "true"];
    cluster.gpool(submit).refused(4, &["\"monitored\""]);
    let line = "#!/bin/sh\n# GPOOL --gpus 0.5 --enforce monitored\ntrue\n";
    std::fs::write(cluster.work().join("job.sh"), line).unwrap();
    let id = cluster.submit(["job.sh"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    let line = "printenv LD_LIBRARY_PATH";
    let id = cluster.sh(&["--gpus", "0.5"], line);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(1));
    let id = cluster.sh(&["--gpus", "0.25"], "exec sleep 1000");
    cluster.until_is(&id, "running");
    let edited = cluster.gpool(["edit", &id, "--gpus", "0.5"]);
    let note = "the size is not enforced on lab1:0 (monitored)";
    assert!(edited.code == 0 && edited.err.contains(note), "{edited:?}");
}
