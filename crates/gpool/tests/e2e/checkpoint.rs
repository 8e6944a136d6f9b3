//! Pauses of jobs with GPU memory, with the driver's checkpoints, on stub libraries of the driver.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_stub_nvml::{Cuda, Device, STATE_FILE, State, install};

use crate::harness::{Cluster, Running, kill_9, skip, until, until_so};
use crate::nvml::device;

const GIB: u64 = 1 << 30;
/// A job that its user lets be paused.
pub const PAUSABLE: [&str; 4] = ["-g", "1", "--exits", "pause,requeue"];

/// A cluster with one device, and a program that uses it.
pub struct Rig {
    pub cluster: Cluster,
    state: State,
}

/// The program of a job: it gets commands through a FIFO.
pub struct Program {
    pub id: String,
    commands: File,
    n_asked: usize,
}

impl Rig {
    /// `None`, with a notice, without C compiler.
    pub fn new(driver: &str) -> Option<Self> {
        Self::of(driver, small())
    }

    fn of(driver: &str, device: Device) -> Option<Self> {
        Self::with(driver, vec![device], Cuda::default())
    }

    /// Two GPUs of one model.
    pub fn pair(driver: &str, cuda: Cuda) -> Option<Self> {
        let small = |ix| Device { memory: Some(8 * GIB), minor: Some(12 - ix), ..device(ix) };
        let devices = [0, 1].map(small);
        Self::with(driver, devices.to_vec(), cuda)
    }

    fn with(driver: &str, devices: Vec<Device>, cuda: Cuda) -> Option<Self> {
        let mut cluster = Cluster::unstarted(&["--devices", "nvml"]);
        let folder = cluster.path("driver");
        std::fs::create_dir(&folder).unwrap();
        let nvml = install(&folder).unwrap();
        let library = gpool_stub_cuda::install(&folder).unwrap();
        if !compile(&folder.join("program")) {
            return None;
        }
        let state = State { driver: driver.to_owned(), devices, cuda, ..State::default() };
        for (name, path) in [("GPOOL_NVML_PATH", nvml), ("GPOOL_CUDA_PATH", library)] {
            cluster.variables.push((name.to_owned(), path.display().to_string()));
        }
        let mut rig = Self { cluster, state };
        rig.edit(|_| {});
        rig.cluster.up();
        until_so("the device is known", || rig.cluster.gpu_state(0) == "free");
        Some(rig)
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.state);
        self.state.write(&self.cluster.path("driver").join(STATE_FILE)).unwrap();
    }

    /// Starts a job with a GiB of device memory that holds a text.
    pub fn start(&self, flags: &[&str]) -> Program {
        let driver = self.cluster.path("driver");
        self.start_with(flags, &format!("env LD_LIBRARY_PATH={}", driver.display()))
    }

    /// Starts such a job with these words before its program.
    pub fn start_with(&self, flags: &[&str], before: &str) -> Program {
        let driver = self.cluster.path("driver");
        let fifo = self.cluster.path(&format!("fifo{}", self.cluster.all_ids().len()));
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
        let line = format!(
            "exec {before} {driver}/program dlsym < {fifo}",
            driver = driver.display(),
            fifo = fifo.display()
        );
        let id = self.cluster.sh(flags, &line);
        let commands = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let mut program = Program { id, commands, n_asked: 0 };
        for line in ["init", "context 0"] {
            assert_eq!(self.ask(&mut program, line), "0");
        }
        let said = self.ask(&mut program, &format!("alloc {GIB}"));
        let address = said.strip_prefix("0 ").expect("there is memory");
        assert_eq!(self.ask(&mut program, &format!("write {address} kept")), "0");
        std::fs::write(self.address(&program), address).unwrap();
        program
    }

    fn address(&self, program: &Program) -> PathBuf {
        self.cluster.path(&format!("address{}", program.id))
    }

    pub fn ask(&self, program: &mut Program, line: &str) -> String {
        self.send(program, line);
        self.answer(program)
    }

    pub fn send(&self, program: &mut Program, line: &str) {
        writeln!(program.commands, "{line}").unwrap();
        program.n_asked += 1;
    }

    /// The answer to the last line.
    pub fn answer(&self, program: &Program) -> String {
        until("it answers", || {
            let said = self.cluster.stdout_of(&program.id);
            let is_whole = said.ends_with('\n');
            let answer = said.lines().nth(program.n_asked - 1).map(str::to_owned);
            answer.filter(|_| is_whole)
        })
    }

    pub fn has_text(&self, program: &mut Program) -> bool {
        self.read_text(program);
        self.answer(program) == "0 kept"
    }

    /// Makes the GPU call that reads the text.
    pub fn read_text(&self, program: &mut Program) {
        let address = std::fs::read_to_string(self.address(program)).unwrap();
        self.send(program, &format!("read {address} 5"));
    }

    /// A helper process that makes this call for a job.
    pub fn helper(&self, id: &str, call: &str) -> Option<u32> {
        let shepherd = self.cluster.shepherd(id);
        helpers(shepherd)
            .into_iter()
            .find(|(_, words)| words.contains(&format!("\"{call}\":")))
            .map(|it| it.0)
    }

    /// Pauses a job, and waits until its node has reported that. The server shows it as paused from
    /// the order on.
    pub fn pause(&self, id: &str) {
        self.cluster.gpool(["pause", id]).ok();
        until_so("it is paused", || self.events(id).contains("run 1 is paused"));
    }

    pub fn events(&self, id: &str) -> String {
        self.cluster.gpool(["events", id]).ok()
    }

    /// Whether the page of a job and the queue show what its restore waits for.
    fn explains(&self, id: &str) -> bool {
        let has = |words: &[&str]| self.cluster.gpool(words).ok().contains("and it needs 1280 MiB");
        has(&["why", id, "-o", "json"]) && has(&["queue", "-o", "wide"])
    }
}

/// The processes below a shepherd that call the driver, with their command lines.
pub fn helpers(shepherd: u32) -> Vec<(u32, String)> {
    let below = gpool_sys::proc::descendants(shepherd).into_iter();
    let words = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    below
        .map(|pid| (pid, String::from_utf8_lossy(&words(pid)).into_owned()))
        .filter(|(_, words)| words.contains("__checkpoint"))
        .collect()
}

/// A device with less memory than the machine has, so that a job on it can be paused.
fn small() -> Device {
    Device { memory: Some(8 * GIB), ..device(0) }
}

fn compile(program: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shim/tests/programs/cuda.c");
    let mut command = Command::new("cc");
    command.args(["-O1", "-o"]).arg(program).arg(source).args(["-ldl", "-lpthread"]);
    match command.status() {
        Ok(status) => assert!(status.success(), "cuda.c can't be compiled"),
        Err(error) => skip(&format!("there is no C compiler: {error}")),
    }
    program.exists()
}

#[test]
fn a_job_that_looks_at_its_stream_survives_a_pause() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    rig.edit(|state| state.cuda.crash_on_sync = true);
    let mut program = rig.start_with(&PAUSABLE, "");
    let id = program.id.clone();
    rig.pause(&id);
    rig.edit(|state| state.hang = ["cuCheckpointProcessRestore".to_owned()].into());
    rig.cluster.gpool(["resume", &id]).ok();
    until("the restore has begun", || rig.helper(&id, "restore"));
    // Its processes run, and its memory is not there yet.
    rig.send(&mut program, "query");
    let is_read = || rustix::io::ioctl_fionread(&program.commands).unwrap() == 0;
    until_so("it makes the call", is_read);
    rig.edit(|state| state.hang.clear());
    assert_eq!(rig.answer(&program), "0");
    assert!(rig.has_text(&mut program));
}

#[test]
fn a_paused_job_frees_its_gpu_and_keeps_its_content() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    rig.pause(&id);
    // Another job gets the whole device meanwhile.
    let mut other = rig.start(&["-g", "1"]);
    assert!(rig.ask(&mut other, &format!("alloc {}", 5 * GIB)).starts_with("0 "));
    rig.cluster.gpool(["resume", &id]).ok();
    assert_eq!(rig.cluster.job(&id).state.as_str(), "paused");
    // Neither the pause nor its end needs the server that began it.
    rig.cluster.kill();
    rig.cluster.up();
    rig.cluster.until_is(&id, "paused");
    rig.cluster.gpool(["cancel", &other.id]).ok();
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
    assert_eq!(rig.cluster.job(&id).run.attempt, 1);
}

#[test]
fn a_server_that_is_killed_finds_the_job_paused() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    let symbol = "cuCheckpointProcessCheckpoint".to_owned();
    rig.edit(|state| state.hang = [symbol].into());
    rig.cluster.gpool(["pause", &id]).ok();
    until("the checkpoint has begun", || rig.helper(&id, "checkpoint"));
    rig.cluster.kill();
    rig.edit(|state| state.hang.clear());
    rig.cluster.up();
    rig.cluster.until_is(&id, "paused");
    let other = rig.start(&["-g", "1"]);
    rig.cluster.gpool(["cancel", &other.id]).ok();
    rig.cluster.gpool(["resume", &id]).ok();
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
}

#[test]
fn a_killed_keeper_leaves_the_job_running() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    let symbol = "cuCheckpointProcessCheckpoint".to_owned();
    rig.edit(|state| state.hang = [symbol].into());
    rig.cluster.gpool(["pause", &id]).ok();
    until("the checkpoint has begun", || rig.helper(&id, "checkpoint"));
    let keeper = helpers(rig.cluster.shepherd(&id));
    let keeper = keeper.iter().find(|(_, words)| words.contains("\"plan\":")).unwrap().0;
    kill_9(keeper);
    rig.edit(|state| state.hang.clear());
    until_so("it is reported", || rig.events(&id).contains("calls the driver was killed"));
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
    rig.pause(&id);
}

#[test]
fn a_job_without_consent_and_one_with_managed_memory_run_on() {
    let Some(rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&["-g", "1"]);
    rig.cluster.gpool(["pause", &program.id]).ok();
    until_so("it is refused", || rig.events(&program.id).contains("--exits pause,requeue"));
    rig.cluster.until_is(&program.id, "running");
    assert!(rig.has_text(&mut program));
    rig.cluster.gpool(["cancel", &program.id]).ok();
    rig.cluster.until_ended(&program.id);
    let mut program = rig.start(&PAUSABLE);
    assert!(rig.ask(&mut program, "managed 1048576").starts_with("0 "));
    rig.cluster.gpool(["pause", &program.id]).ok();
    until_so("it fails", || rig.events(&program.id).contains("CUDA_ERROR_NOT_SUPPORTED"));
    rig.cluster.until_is(&program.id, "running");
    assert!(rig.has_text(&mut program));
}

#[test]
fn a_reclaimed_job_pauses_or_takes_its_next_exit() {
    let Some(rig) = Rig::new("580.95.05") else { return };
    let cluster = &rig.cluster;
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "1"]).ok();
    let lent = [&PAUSABLE[..], &["-p", "red", "-t", "10m"]].concat();
    let mut borrower = rig.start(&lent);
    let owner = rig.start(&["-g", "1", "-p", "blue"]);
    cluster.until_is(&owner.id, "running");
    cluster.until_is(&borrower.id, "paused");
    cluster.gpool(["cancel", &owner.id]).ok();
    cluster.until_is(&borrower.id, "running");
    assert!(rig.has_text(&mut borrower));
    assert!(rig.ask(&mut borrower, "managed 1048576").starts_with("0 "));
    let owner = rig.start(&["-g", "1", "-p", "blue"]);
    let requeued = cluster.until_is(&borrower.id, "pending");
    assert_eq!((requeued.run.attempt, requeued.run.attempts[0].again.as_str()), (2, "taken_back"));
    cluster.until_is(&owner.id, "running");
}

/// The host memory would not be enough if the job used all memory of its device.
#[test]
fn a_reclaimed_job_with_more_gpu_memory_than_the_machine_has_takes_its_next_exit() {
    let large = Device { memory: Some(64 << 40), ..device(0) };
    let Some(rig) = Rig::of("580.95.05", large) else { return };
    let cluster = &rig.cluster;
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "1"]).ok();
    let borrower = rig.start(&[&PAUSABLE[..], &["-p", "red", "-t", "10m"]].concat());
    let owner = rig.start(&["-g", "1", "-p", "blue"]);
    cluster.until_is(&owner.id, "running");
    assert!(!rig.events(&borrower.id).contains("paused"));
    assert_eq!(cluster.until_is(&borrower.id, "pending").run.attempt, 2);
}

#[test]
fn a_restored_job_is_checkpointed_before_it_is_killed() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    rig.pause(&id);
    rig.cluster.gpool(["resume", &id]).ok();
    assert!(rig.has_text(&mut program));
    let symbol = "cuCheckpointProcessCheckpoint".to_owned();
    rig.edit(|state| state.hang = [symbol].into());
    let cancel = rig.cluster.start(["cancel", &id]);
    until("it is being checkpointed", || rig.helper(&id, "checkpoint"));
    assert_eq!(rig.cluster.job(&id).state.as_str(), "stopping");
    rig.edit(|state| state.hang.clear());
    cancel.end().ok();
    let ended = rig.cluster.until_ended(&id);
    assert_eq!(ended.state.as_str(), "cancelled");
    until_so("the device is free", || rig.cluster.gpu_state(0) == "free");
}

#[test]
fn a_restore_waits_for_a_process_of_others() {
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    rig.pause(&id);
    rig.edit(|state| state.devices[0].used = 79 * GIB + GIB / 2);
    rig.cluster.gpool(["resume", &id]).ok();
    until_so("a keeper waits", || !helpers(rig.cluster.shepherd(&id)).is_empty());
    until_so("it is explained", || rig.explains(&id));
    let why = rig.cluster.why(&id).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("It is paused at the moment, and waits: GPU "), "{why}");
    rig.cluster.kill();
    rig.cluster.up();
    until_so("it is explained again", || rig.explains(&id));
    rig.edit(|state| state.devices[0].used = GIB);
    assert!(rig.has_text(&mut program));
    rig.cluster.until_is(&id, "running");
    until_so("it no longer waits", || rig.cluster.job(&id).run.stalled.is_none());
}

/// The GPUs of a job, by index.
pub fn gpus_of(rig: &Rig, id: &str) -> Vec<u32> {
    rig.cluster.job(id).placement.iter().flat_map(|it| it.devices.clone()).collect()
}

/// A paused job with a text in GPU memory, and a job that has its GPU since.
pub fn displaced(rig: &Rig) -> (Program, Program) {
    let program = rig.start(&PAUSABLE);
    assert_eq!(gpus_of(rig, &program.id), [0]);
    rig.pause(&program.id);
    let other = rig.start(&["-g", "1"]);
    assert_eq!(gpus_of(rig, &other.id), [0]);
    (program, other)
}

#[test]
fn a_paused_job_resumes_on_another_gpu_if_its_own_is_taken() {
    let Some(mut rig) = Rig::pair("580.95.05", Cuda::default()) else { return };
    let (mut program, mut other) = displaced(&rig);
    let id = program.id.clone();
    rig.cluster.gpool(["resume", &id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!((gpus_of(&rig, &id), rig.cluster.job(&id).run.attempt), (vec![1], 1));
    // The driver has moved memory now, so the next move needs no room on the old GPU.
    rig.pause(&id);
    rig.cluster.gpool(["cancel", &other.id]).ok();
    rig.cluster.until_ended(&other.id);
    let first = rig.start(&["-g", "1"]);
    other = rig.start(&["-g", "1"]);
    let (on_0, on_1) = match gpus_of(&rig, &first.id)[..] {
        [0] => (first, &mut other),
        _ => (other, &mut { first }),
    };
    assert!(rig.ask(on_1, &format!("alloc {}", 6 * GIB)).starts_with("0 "));
    rig.cluster.gpool(["resume", &id]).ok();
    rig.cluster.kill();
    rig.cluster.up();
    rig.cluster.gpool(["cancel", &on_0.id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!(gpus_of(&rig, &id), [0]);
    rig.cluster.until_is(&id, "running");
}

#[test]
fn a_job_that_the_driver_does_not_move_waits_for_its_own_gpu() {
    let cuda = Cuda { move_is_ignored: true, ..Cuda::default() };
    let Some(rig) = Rig::pair("580.95.05", cuda) else { return };
    let (mut program, other) = displaced(&rig);
    let id = program.id.clone();
    rig.cluster.gpool(["resume", &id]).ok();
    let restored = "restored its memory on the old GPU";
    until_so("it is found out", || rig.events(&id).contains(restored));
    rig.cluster.until_is(&id, "paused");
    until_so("it is explained", || rig.cluster.why(&id).contains("own GPU 0"));
    let why = rig.cluster.why(&id).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("it can't resume on another GPU: driver 580.95.05"), "{why}");
    assert_eq!(gpus_of(&rig, &id), [0]);
    // The other job has its GPU for itself, and the free one takes work.
    until_so("the GPU is free", || rig.cluster.gpu_state(1) == "free");
    rig.cluster.gpool(["cancel", &other.id]).ok();
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
    assert_eq!(gpus_of(&rig, &id), [0]);
}

#[test]
fn with_an_old_driver_a_paused_job_waits_for_its_own_gpu() {
    let Some(rig) = Rig::pair("575.57.08", Cuda::default()) else { return };
    let (mut program, other) = displaced(&rig);
    let id = program.id.clone();
    rig.cluster.gpool(["resume", &id]).ok();
    until_so("it is explained", || rig.cluster.why(&id).contains("580 or later"));
    rig.cluster.gpool(["cancel", &other.id]).ok();
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
    assert_eq!(gpus_of(&rig, &id), [0]);
}

#[test]
fn an_old_driver_pauses_nothing() {
    let Some(rig) = Rig::new("565.57.01") else { return };
    let program = rig.start(&PAUSABLE);
    rig.cluster.gpool(["pause", &program.id]).refused(2, &["can't pause jobs", "gpool doctor"]);
}

#[test]
fn the_doctor_shows_whether_jobs_can_be_paused() {
    let row = |driver: &str| {
        let rig = Rig::new(driver)?;
        let mut command = rig.cluster.command();
        command.envs(rig.cluster.variables.iter().cloned()).arg("doctor");
        let report = Running::start(&mut command, None).end().out;
        let is_about = |line: &&str| line.starts_with("pause jobs by") || line.contains("jobs on");
        Some(report.lines().filter(is_about).collect::<Vec<_>>().join("\n"))
    };
    let Some(works) = row("580.95.05") else { return };
    assert!(works.contains("checkpoints of driver 580.95.05"), "{works}");
    assert!(works.contains("another GPU of the model, by driver 580.95.05"), "{works}");
    let before = row("575.57.08").unwrap();
    assert!(before.contains("their own GPU only: ") && before.contains("580 or later"), "{before}");
    let old = row("565.57.01").unwrap();
    assert!(old.contains("nothing: ") && old.contains("565.57.01"), "{old}");
}
