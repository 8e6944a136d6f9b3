//! A machine with stub drivers, a shim and a ledger; and programs that use them.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpool_ledger::layout::{DRIVER_VARIABLE, FOLDER_VARIABLE, NVML_VARIABLE};
use gpool_ledger::{Ledger, Share};
use gpool_stub_nvml::{Cuda, Device, Live, State};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// Results of the driver.
pub const OK: i64 = 0;
pub const OUT_OF_MEMORY: i64 = 2;
/// Long enough for every answer.
const LONG: Duration = Duration::from_secs(60);

/// A machine with two devices of 16 GiB.
pub struct Machine {
    folder: TempDir,
    pub state: State,
}

/// A program that executes commands.
pub struct Program {
    child: Child,
    /// Absent at the end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

pub fn uuid(ix: u8) -> [u8; 16] {
    [0xa0 + ix; 16]
}

/// The text of a UUID as the driver writes it.
pub fn uuid_text(ix: u8) -> String {
    let pair = format!("{:02x}", 0xa0 + ix);
    let group = |n: usize| pair.repeat(n);
    format!("GPU-{}-{}-{}-{}-{}", group(4), group(2), group(2), group(2), group(6))
}

impl Machine {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["driver", "shim", "ledger"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        gpool_stub_cuda::install(&folder.path().join("driver")).unwrap();
        gpool_stub_nvml::install(&folder.path().join("driver")).unwrap();
        gpool_shim::install(&folder.path().join("shim")).unwrap();
        let device = |ix| Device {
            uuid: uuid_text(ix),
            name: "NVIDIA H100".into(),
            memory: Some(16 * GIB),
            processes: Some(vec![]),
            ..Device::default()
        };
        let devices = vec![device(0), device(1)];
        let state = State { driver: "580.95.05".into(), devices, ..State::default() };
        let machine = Self { folder, state };
        machine.write();
        machine
    }

    pub fn cuda(mut self, cuda: Cuda) -> Self {
        self.state.cuda = cuda;
        self.write();
        self
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.state);
        self.write();
    }

    fn write(&self) {
        self.state.write(&self.state_file()).unwrap();
    }

    pub fn state_file(&self) -> PathBuf {
        self.folder.path().join("state.json")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The job's ledger: `request` and `limit` on the first device.
    pub fn ledger(&self, request: u64, limit: u64) -> Ledger {
        self.ledger_of(&[share(0, request, limit)])
    }

    pub fn ledger_of(&self, shares: &[Share]) -> Ledger {
        Ledger::create(&self.path("ledger"), shares, LONG, None).unwrap()
    }

    /// Starts the C program; `None` without C compiler.
    pub fn program(&self, route: &str) -> Option<Program> {
        let mut command = Command::new(compiled()?);
        command.arg(route);
        Some(self.start(command))
    }

    /// The same in an environment that names these devices.
    pub fn program_with(&self, devices: &str) -> Option<Program> {
        let mut command = Command::new("env");
        command.arg(format!("CUDA_VISIBLE_DEVICES={devices}")).arg(compiled()?).arg("dlsym");
        Some(self.start(command))
    }

    /// Starts a program with the shim in front of the driver.
    pub fn start(&self, mut command: Command) -> Program {
        command.env("LD_LIBRARY_PATH", self.path("shim"));
        command.env(DRIVER_VARIABLE, self.path("driver/libcuda.so.1"));
        command.env(NVML_VARIABLE, self.path("driver/libnvidia-ml.so.1"));
        command.env(FOLDER_VARIABLE, self.path("ledger"));
        command.env("GPOOL_STUB_STATE", self.state_file());
        Program::start(command)
    }

    /// The memory that the driver reports for a device.
    pub fn driver_memory(&self, device: usize) -> u64 {
        let records = Live::beside(&self.state_file()).records().unwrap();
        records.iter().map(|record| record.used[device]).sum()
    }
}

pub fn share(ix: u8, request: u64, limit: u64) -> Share {
    Share { uuid: uuid(ix), request, limit, granted: request, context: 0 }
}

impl Program {
    pub fn start(mut command: Command) -> Self {
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line of the program.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Executes a command, and returns the words of the result.
    pub fn words(&mut self, line: &str) -> Vec<String> {
        self.send(line);
        self.line().split(' ').map(str::to_owned).collect()
    }

    /// Executes a command, and returns the numbers of the result.
    pub fn run(&mut self, line: &str) -> Vec<i64> {
        let words = self.words(line);
        let parsed: Result<Vec<i64>, _> = words.iter().map(|word| word.parse()).collect();
        parsed.unwrap_or_else(|_| panic!("{line}: {words:?}"))
    }

    /// Executes a command, and returns its result alone.
    pub fn code(&mut self, line: &str) -> i64 {
        self.run(line)[0]
    }

    /// Executes a command that must succeed, and returns the address or handle.
    pub fn get(&mut self, line: &str) -> i64 {
        let result = self.run(line);
        assert_eq!(result[0], OK, "{line}");
        result[1]
    }

    /// Initialises the driver with a context on the first device.
    pub fn ready(&mut self) {
        assert_eq!(self.code("init"), OK);
        assert_eq!(self.code("context 0"), OK);
    }

    /// Kills the program, as with `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the input, and returns whether the program ended without error.
    pub fn end(mut self) -> bool {
        self.input = None;
        self.child.wait().unwrap().success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already after `kill` and `end`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that the ledger counts on the first device.
pub fn counted(ledger: &Ledger) -> u64 {
    ledger.processes().unwrap().iter().map(|process| process.used[0]).sum()
}

/// The compiled C program; `None`, with a notice, without C compiler.
pub fn compiled() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cuda");
        compile(&path, &[]).then_some((folder, path))
    });
    program.as_ref().map(|(_, path)| path.as_path())
}

/// Compiles the C program; returns false, with a notice, without C compiler.
pub fn compile(program: &Path, libraries: &[&OsStr]) -> bool {
    let mut command = Command::new("cc");
    command.args(["-O2", "-o"]).arg(program).arg(source("cuda.c")).args(["-ldl", "-lpthread"]);
    match command.args(libraries).status() {
        Ok(status) => assert!(status.success(), "cuda.c can't be compiled"),
        Err(error) => {
            eprintln!("skipped: there is no C compiler: {error}");
            return false;
        }
    }
    true
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The interpreter; `None`, with a notice, without Python.
pub fn python() -> Option<Command> {
    let found = Command::new("python3").arg("--version").output();
    if found.is_err() {
        eprintln!("skipped: there is no python3");
        return None;
    }
    let mut command = Command::new("python3");
    command.args([OsString::from("-u"), source("cuda.py").into_os_string()]);
    Some(command)
}
