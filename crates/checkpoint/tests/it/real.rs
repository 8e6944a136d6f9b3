//! Real processes with the stub driver: keepers and helpers are processes too, and get killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use gpool_checkpoint::{
    ARGUMENT, Aim, Deadlines, Drivers, Plan, ResidentProcess, Say, Work, probe,
};
use gpool_stub_nvml::{Cuda, Device, STATE_FILE, State};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::fake::{GIB, GPU};

mod moves;

const HOST: &str = env!("CARGO_BIN_EXE_gpool-checkpoint-host");
/// Long enough for every answer.
const LONG: Duration = Duration::from_secs(60);

/// A machine with one device of 16 GiB.
struct Machine {
    folder: TempDir,
    state: State,
}

impl Machine {
    fn new(cuda: Cuda) -> Self {
        let folder = tempfile::tempdir().unwrap();
        gpool_stub_cuda::install(folder.path()).unwrap();
        gpool_stub_nvml::install(folder.path()).unwrap();
        let device = Device {
            uuid: GPU.to_owned(),
            name: "NVIDIA H100".to_owned(),
            memory: Some(16 * GIB),
            processes: Some(vec![]),
            ..Device::default()
        };
        let driver = "580.95.05".to_owned();
        let state = State { driver, devices: vec![device], cuda, ..State::default() };
        let mut machine = Self { folder, state };
        machine.edit(|_| {});
        machine
    }

    fn edit(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.state);
        self.state.write(&self.folder.path().join(STATE_FILE)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn drivers(&self) -> Drivers {
        let (cuda, nvml) = ("libcuda.so.1", "libnvidia-ml.so.1");
        Drivers { cuda: self.path(cuda), nvml: self.path(nvml) }
    }

    fn plan(&self, aim: Aim, processes: &[ResidentProcess]) -> Plan {
        Plan {
            aim,
            shepherd: std::process::id(),
            devices: vec![GPU.to_owned()],
            // Other tests of this process have programs on other machines only.
            is_shared: false,
            ignored: BTreeSet::new(),
            moves: BTreeMap::new(),
            record: Some(self.path("moves")),
            processes: processes.to_vec(),
            ledger: None,
            is_risk_accepted: true,
            runs_on: false,
            drivers: self.drivers(),
            deadlines: Deadlines::default(),
        }
    }

    /// Starts a program; `None`, with a notice, without C compiler.
    fn program(&self) -> Option<Program> {
        let program = self.path("program");
        if !program.exists() && !compile(&program) {
            return None;
        }
        let mut child = Command::new(program)
            .arg("dlsym")
            .env("LD_LIBRARY_PATH", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, input, output };
        for line in ["init", "context 0"] {
            assert_eq!(program.ask(line), "0");
        }
        Some(program)
    }

    /// A program with a text in a GiB of device memory, and its address.
    fn writer(&self) -> Option<(Program, String)> {
        let mut program = self.program()?;
        let address = program.ask(&format!("alloc {GIB}")).replacen("0 ", "", 1);
        assert_eq!(program.ask(&format!("write {address} kept")), "0");
        Some((program, address))
    }
}

fn compile(program: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shim/tests/programs/cuda.c");
    let mut command = Command::new("cc");
    command.args(["-O1", "-o"]).arg(program).arg(source).args(["-ldl", "-lpthread"]);
    match command.status() {
        Ok(status) => assert!(status.success(), "cuda.c can't be compiled"),
        Err(error) => {
            eprintln!("skipped: there is no C compiler: {error}");
            return false;
        }
    }
    true
}

/// A program that executes commands.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    fn has_text(&mut self, address: &str) -> bool {
        self.ask(&format!("read {address} 5")) == "0 kept"
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    fn is_stopped(&self) -> bool {
        gpool_sys::proc::stat(self.child.id()).is_some_and(|stat| stat.state == b'T')
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// A keeper at work, with its messages.
struct Keeper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Keeper {
    fn start(plan: Plan) -> Self {
        let work = serde_json::to_string(&Work::Plan(Box::new(plan))).unwrap();
        let mut command = Command::new(HOST);
        command.args([ARGUMENT, &work]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// The next message; `None` at the end. Stops or continues the program as the keeper asks.
    fn next(&mut self, program: &Program) -> Option<Say> {
        let mut line = String::new();
        if self.output.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let say = serde_json::from_str(&line).unwrap();
        match &say {
            Say::Freeze => {
                program.signal(Signal::STOP);
                until("it is stopped", || program.is_stopped());
            }
            Say::Thaw => program.signal(Signal::CONT),
            Say::Restores => {}
            _ => return Some(say),
        }
        // It may have been killed meanwhile.
        let _ = writeln!(self.input, "yes");
        Some(say)
    }

    /// The last message.
    fn last(mut self, program: &Program) -> Option<Say> {
        let mut last = None;
        while let Some(say) = self.next(program) {
            last = Some(say);
        }
        self.child.wait().unwrap();
        last
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn pause(machine: &Machine, program: &Program) -> Vec<ResidentProcess> {
    match Keeper::start(machine.plan(Aim::Pause, &[])).last(program) {
        Some(Say::Paused(held)) => held,
        other => panic!("{other:?}"),
    }
}

fn resume(machine: &Machine, program: &Program, held: &[ResidentProcess]) {
    let last = Keeper::start(machine.plan(Aim::Resume, held)).last(program);
    assert_eq!(last, Some(Say::Resumed));
}

fn why_not(machine: &Machine, program: &Program, plan: Plan) -> String {
    match Keeper::start(plan).last(program) {
        Some(Say::NotPaused { why, is_lost: false }) => why,
        other => panic!("{machine}: {other:?}", machine = machine.folder.path().display()),
    }
}

#[test]
fn the_device_is_free_meanwhile_and_the_content_is_kept() {
    let machine = Machine::new(Cuda::default());
    let Some((mut program, address)) = machine.writer() else { return };
    // The driver's calls would wait for ever for a stopped process.
    program.signal(Signal::STOP);
    until("it is stopped", || program.is_stopped());
    let held = pause(&machine, &program);
    assert_eq!((held.len(), held[0].bytes()), (1, GIB));
    assert!(program.is_stopped());
    let mut other = machine.program().unwrap();
    assert!(other.ask(&format!("alloc {}", 16 * GIB)).starts_with("0 "), "all memory is free");
    drop(other);
    resume(&machine, &program, &held);
    assert!(!program.is_stopped() && program.has_text(&address));
    // A second pause, and its end: the process is checkpointed before it is killed.
    let last = Keeper::start(machine.plan(Aim::Release, &[])).last(&program);
    assert_eq!(last, Some(Say::Released { why: None }));
}

#[test]
fn a_lock_that_takes_too_long_leaves_the_program_running() {
    let slow = [("cuCtxSynchronize".to_owned(), 1000)].into();
    let machine = Machine::new(Cuda { slow_ms: slow, ..Cuda::default() });
    let Some((mut program, address)) = machine.writer() else { return };
    assert_eq!(program.ask("synchronize-apart"), "started");
    let mut plan = machine.plan(Aim::Pause, &[]);
    plan.deadlines.lock_ms = 20;
    let why = why_not(&machine, &program, plan);
    assert!(why.contains("did not end in time"), "{why}");
    assert_eq!(program.line(), "synchronized 0");
    assert!(program.has_text(&address));
}

#[test]
fn errors_of_the_driver_are_undone() {
    let mut machine = Machine::new(Cuda::default());
    let Some((mut program, address)) = machine.writer() else { return };
    for call in ["GetState", "Lock", "Checkpoint"] {
        let symbol = format!("cuCheckpointProcess{call}");
        machine.edit(|state| state.errors = [(symbol.clone(), 800)].into());
        let last = Keeper::start(machine.plan(Aim::Pause, &[])).last(&program);
        machine.edit(|state| state.errors.clear());
        match last {
            Some(Say::NotPaused { why, is_lost: false }) => {
                assert!(why.contains("CUDA_ERROR_NOT_PERMITTED (800)"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert!(program.has_text(&address), "{call}");
    }
}

#[test]
fn managed_memory_is_refused_by_the_driver_and_undone() {
    let machine = Machine::new(Cuda::default());
    let Some((mut program, address)) = machine.writer() else { return };
    assert!(program.ask("managed 1048576").starts_with("0 "));
    let why = why_not(&machine, &program, machine.plan(Aim::Pause, &[]));
    assert!(why.contains("CUDA_ERROR_NOT_SUPPORTED"), "{why}");
    assert!(program.has_text(&address));
}

/// The helper of a keeper that makes a call.
fn helper(keeper: u32, call: &str) -> Option<u32> {
    gpool_sys::proc::children_now(keeper).into_iter().find(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&format!("\"{call}\":"))
    })
}

#[test]
fn a_helper_that_is_killed_in_a_call_changes_nothing() {
    let slow = ["Checkpoint", "Restore"];
    let slow = slow.map(|call| (format!("cuCheckpointProcess{call}"), 500)).into();
    let machine = Machine::new(Cuda { slow_ms: slow, ..Cuda::default() });
    let Some((mut program, address)) = machine.writer() else { return };
    let kill_helper = |keeper: &Keeper, call: &str| {
        let mut found = None;
        until("the helper is at work", || {
            found = helper(keeper.child.id(), call);
            found.is_some()
        });
        send(found.unwrap(), Signal::KILL);
    };
    let mut keeper = Keeper::start(machine.plan(Aim::Pause, &[]));
    assert!(matches!(keeper.next(&program), Some(Say::Found(_))));
    kill_helper(&keeper, "checkpoint");
    // The call may or may not have reached the driver, which decides between these.
    let held = match keeper.last(&program) {
        Some(Say::Paused(held)) => held,
        Some(Say::NotPaused { is_lost: false, .. }) => pause(&machine, &program),
        other => panic!("{other:?}"),
    };
    let mut keeper = Keeper::start(machine.plan(Aim::Resume, &held));
    while keeper.next(&program) != Some(Say::Restores) {}
    kill_helper(&keeper, "restore");
    assert_eq!(keeper.last(&program), Some(Say::Resumed));
    assert!(program.has_text(&address));
}

#[test]
fn a_killed_keeper_is_followed_by_another() {
    let slow = ["Lock", "Checkpoint", "Restore", "Unlock"];
    let slow = slow.map(|call| (format!("cuCheckpointProcess{call}"), 300)).into();
    let machine = Machine::new(Cuda { slow_ms: slow, ..Cuda::default() });
    let Some((mut program, address)) = machine.writer() else { return };
    for call in ["lock", "checkpoint"] {
        let mut keeper = Keeper::start(machine.plan(Aim::Pause, &[]));
        let Some(Say::Found(held)) = keeper.next(&program) else { panic!("it found nothing") };
        until("it is at work", || helper(keeper.child.id(), call).is_some());
        send(keeper.child.id(), Signal::KILL);
        assert_eq!(keeper.last(&program), None);
        // The next one completes the pause, or undoes it.
        match call {
            "lock" => resume(&machine, &program, &held),
            _ => {
                let last = Keeper::start(machine.plan(Aim::Pause, &held)).last(&program);
                assert!(matches!(last, Some(Say::Paused(_))), "{last:?}");
                resume(&machine, &program, &held);
            }
        }
        assert!(program.has_text(&address), "{call}");
    }
    for call in ["restore", "unlock"] {
        let held = pause(&machine, &program);
        let mut keeper = Keeper::start(machine.plan(Aim::Resume, &held));
        while keeper.next(&program) != Some(Say::Restores) {}
        until("it is at work", || helper(keeper.child.id(), call).is_some());
        send(keeper.child.id(), Signal::KILL);
        assert_eq!(keeper.last(&program), None);
        resume(&machine, &program, &held);
        assert!(program.has_text(&address), "{call}");
    }
}

#[test]
fn a_restore_without_room_waits_instead_of_failing_for_ever() {
    let mut machine = Machine::new(Cuda::default());
    let Some((mut program, address)) = machine.writer() else { return };
    let held = pause(&machine, &program);
    machine.edit(|state| state.devices[0].used = 15 * GIB);
    let mut keeper = Keeper::start(machine.plan(Aim::Resume, &held));
    match keeper.next(&program) {
        Some(Say::Waits(why)) => assert!(why.contains("1024 MiB free, and it needs 1280"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(program.is_stopped());
    machine.edit(|state| state.devices[0].used = 0);
    assert_eq!(keeper.last(&program), Some(Say::Resumed));
    assert!(program.has_text(&address));
}

#[test]
fn a_driver_that_hangs_is_given_up() {
    let mut machine = Machine::new(Cuda::default());
    // Few bytes, so that a copy has little time.
    let Some(mut program) = machine.program() else { return };
    assert!(program.ask("alloc 1048576").starts_with("0 "));
    machine.edit(|state| state.hang = ["cuCheckpointProcessLock".to_owned()].into());
    let mut plan = machine.plan(Aim::Pause, &[]);
    plan.deadlines = Deadlines { lock_ms: 20, call_ms: 3000, copy_ms: 300, list_ms: 1000 };
    match Keeper::start(plan).last(&program) {
        Some(Say::NotPaused { why, is_lost: true }) => assert!(why.contains("did not answer")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_that_ends_meanwhile_is_no_failure() {
    let machine = Machine::new(Cuda::default());
    let Some((mut program, address)) = machine.writer() else { return };
    let Some((other, _)) = machine.writer() else { return };
    let held = pause(&machine, &program);
    assert_eq!(held.len(), 2);
    drop(other);
    resume(&machine, &program, &held);
    assert!(program.has_text(&address));
}

#[test]
fn the_probe_says_whether_and_why_not() {
    let mut machine = Machine::new(Cuda::default());
    let capability = probe(Path::new(HOST), &machine.drivers());
    assert_eq!(capability.refusal, None);
    assert!(capability.text.contains("580.95.05"), "{}", capability.text);
    machine.edit(|state| state.driver = "565.57.01".to_owned());
    let refusal = probe(Path::new(HOST), &machine.drivers()).refusal.unwrap();
    assert!(refusal.contains("570 or later"), "{refusal}");
    let none = Drivers { cuda: "/nowhere/libcuda.so.1".into(), ..machine.drivers() };
    let refusal = probe(Path::new(HOST), &none).refusal.unwrap();
    assert!(refusal.contains("can't load /nowhere/libcuda.so.1"), "{refusal}");
}
