//! The Python client: its tests, its examples and its wheel, with each Python of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Running, program, skip, until};

/// The folder of the client.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
/// Where `cargo xtask test` installs what the tests need.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python");
/// The newest minor version of Python that the client was tried with; the oldest is 9.
const NEWEST: u32 = 14;

/// A Python of this machine.
struct Python {
    program: PathBuf,
    minor: u32,
}

impl Python {
    /// The Python at a path, if the client supports it.
    fn at(program: PathBuf) -> Option<Self> {
        let script = "import sys; print(sys.version_info.major, sys.version_info.minor)";
        let ran = Command::new(&program).args(["-c", script]).output().ok()?;
        let text = String::from_utf8(ran.stdout).ok()?;
        let minor = text.trim().strip_prefix("3 ")?.parse().ok()?;
        (9..=NEWEST).contains(&minor).then_some(Self { program, minor })
    }

    /// The system's.
    fn of_system() -> Option<Self> {
        let found = Self::at("/usr/bin/python3".into()).or_else(|| Self::at("python3".into()));
        if found.is_none() {
            skip("python3 of version 3.9 or newer is missing");
        }
        found
    }

    /// One of each other version, from `PATH` and pyenv.
    fn others(system: &Self) -> Vec<Self> {
        let named = (9..=NEWEST).map(|minor| PathBuf::from(format!("python3.{minor}")));
        let versions = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
        let folders = versions.and_then(|it| it.read_dir().ok()).into_iter().flatten().flatten();
        let mut found: Vec<Self> = Vec::new();
        for path in folders.map(|it| it.path().join("bin/python3")).chain(named) {
            let Some(python) = Self::at(path) else { continue };
            if found.iter().all(|it| it.minor != python.minor) && python.minor != system.minor {
                found.push(python);
            }
        }
        found
    }

    /// The command with arguments, in the environment of the cluster's commands.
    fn command(&self, cluster: &Cluster, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let of = cluster.command();
        command.env_clear().current_dir(cluster.work());
        command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PYTHONPATH", format!("{FOLDER}/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("GPOOL_TEST_PROGRAM", program()).env("GPOOL_TEST_TOOLS", TOOLS);
        command.args(words);
        command
    }

    /// Runs all tests of the client; a server that a test kills is started again.
    fn tests(&self) {
        let flags = ["--devices", "sim:2xH100-80G", "--listen", "127.0.0.1:0"];
        let mut cluster = Cluster::with(&flags);
        let tests = format!("{FOLDER}/tests");
        let words = ["-W", "error", "-m", "unittest", "discover", "-s", &tests];
        let running = Running::start(&mut self.command(&cluster, &words), None);
        let ends = std::thread::spawn(move || running.end());
        until("the tests have ended", || {
            if cluster.has_died() {
                cluster.up();
            }
            ends.is_finished().then_some(())
        });
        let ran = ends.join().unwrap();
        assert_eq!(ran.code, 0, "Python 3.{}: {}{}", self.minor, ran.out, ran.err);
        // In its last lines; they name the missing tools.
        for line in ran.err.lines().filter(|line| line.contains("skipped")) {
            skip(line);
        }
    }
}

/// A program of the tools; without them the test is skipped.
fn tool(name: &str) -> Option<Command> {
    let path = Path::new(TOOLS).join("bin").join(name);
    if path.exists() {
        return Some(Command::new(path));
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing", path.display());
    skip("tools for Python are missing; cargo xtask test installs them");
    None
}

fn ran(command: &mut Command) -> String {
    Running::start(command, None).end().ok()
}

#[test]
fn the_tests_of_the_client_pass_with_the_systems_python() {
    if let Some(python) = Python::of_system() {
        python.tests();
    }
}

#[test]
fn the_tests_of_the_client_pass_with_other_pythons() {
    let Some(system) = Python::of_system() else { return };
    let others = Python::others(&system);
    if others.is_empty() {
        skip("there is no other Python");
    }
    others.iter().for_each(Python::tests);
}

#[test]
fn the_types_of_the_client_are_those_of_the_document() {
    let Some(python) = Python::of_system() else { return };
    let script = format!("{FOLDER}/tools/api_types.py");
    ran(Command::new(python.program).args([&script, "--check"]));
}

#[test]
fn mypy_accepts_the_client_and_the_use_of_its_types() {
    let Some(mut mypy) = tool("mypy") else { return };
    let folder = tempfile::tempdir().unwrap();
    let plugin = "snakemake-executor-plugin-gpool/src";
    mypy.current_dir(FOLDER).env("MYPYPATH", format!("src:{plugin}"));
    mypy.arg("--cache-dir").arg(folder.path());
    ran(mypy.args(["--strict", "src/gpool", plugin, "tests/typed_use.py"]));
}

#[test]
fn the_sources_of_the_client_are_formatted() {
    for words in [&["format", "--check"][..], &["check"]] {
        let Some(mut ruff) = tool("ruff") else { return };
        ran(ruff.current_dir(FOLDER).args(words).args(["--no-cache", "."]));
    }
}

#[test]
fn a_public_generator_makes_a_client_from_the_document() {
    let Some(mut generator) = tool("openapi-python-client") else { return };
    let folder = tempfile::tempdir().unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let path = format!("{TOOLS}/bin:/usr/bin:/bin");
    generator.current_dir(folder.path()).env("PATH", path);
    generator.args(["generate", "--path", document, "--output-path", "made"]);
    let made = Running::start(&mut generator, None).end();
    assert_eq!(made.code, 0, "{made:?}");
    // It leaves out the routes with other formats than JSON: events, bulk submission, /metrics.
    let said = format!("{}{}", made.out, made.err);
    assert_eq!(said.matches("WARNING parsing").count(), 3, "{said}");
    let models = folder.path().join("made/gpool_client/models");
    let count = models.read_dir().unwrap().count();
    assert!(count > 200, "{count} files in {}", models.display());
}

/// The steps of docs/using/python.md, as a user without root takes them on a machine without GPUs.
/// The wheel has the layout of `cargo xtask wheel`, which takes a quarter of an hour.
#[test]
fn a_wheel_brings_the_command_and_the_module() {
    let Some(python) = Python::of_system() else { return };
    if python.minor < 11 {
        return skip("the script that packs the wheel needs Python 3.11");
    }
    let cluster = Cluster::unstarted(&[]);
    let wheels = cluster.path("wheels");
    let script = format!("{FOLDER}/tools/wheel.py");
    let name = ran(Command::new(&python.program).arg(&script).arg(program()).arg(&wheels));
    let venv = cluster.path("venv");
    ran(python.command(&cluster, &["-m", "venv"]).arg(&venv));
    let bin = venv.join("bin");
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        let of = cluster.command();
        command.env_clear().current_dir(cluster.work()).args(["-c", line]);
        command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        ran(&mut command)
    };
    shell(&format!("pip install --no-index {}/{}", wheels.display(), name.trim()));
    let train = "import gpool, os\nfor step in range(3):\n    gpool.report(loss=1 / (step + 1))\n\
                 print('on', os.environ['GPOOL_GPUS'], 'GPU')\n";
    std::fs::write(cluster.work().join("train.py"), train).unwrap();
    let up = "gpool up --devices sim:1xH100-80G && gpool run --gpus 1 -- python train.py";
    let said = shell(up);
    assert!(said.contains("on 1 GPU"), "{said}");
    let version =
        shell("gpool version --json && python -c 'import gpool; print(gpool.__version__)'");
    assert!(version.trim().ends_with(env!("CARGO_PKG_VERSION")), "{version}");
    let metrics = "python -c 'import gpool; print(gpool.Client().job(1)[\"usage\"][\"metrics\"])'";
    assert!(shell(metrics).contains("loss"));
    shell("gpool down --now");
}
