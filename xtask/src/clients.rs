//! `cargo xtask clients`: large public clients of Slurm, each in a virtual environment of its own,
//! with gpool's commands in `PATH` and simulated GPUs. `cargo xtask test` runs the small ones.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{need, step, test};

/// The scripts, one for each client, and the table of all clients.
const FOLDER: &str = "crates/gpool/tests/clients";
/// Longest run of one client.
const PATIENCE: Duration = Duration::from_secs(300);
/// Pause between two looks at a running client.
const PAUSE: Duration = Duration::from_millis(100);
/// Lines of a failed client's output that are printed.
const LINES_MAX: usize = 15;

/// A row of the table.
struct Client {
    name: String,
    /// Packages with versions: `parsl==2026.11.23`.
    packages: Vec<String>,
}

/// Runs the clients with these names, or all; prints a table, and returns whether all work.
///
/// # Errors
/// There is no such client, or gpool can't be built or started.
pub fn run(names: &[&str]) -> anyhow::Result<bool> {
    if !need::on_path("python3") {
        bail!("the clients need python3 with venv");
    }
    let all = clients()?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|it| it.name != **name)) {
        let known: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        bail!("there is no client {unknown:?}; there are {}", known.join(", "));
    }
    let mut build = step::cargo(&["build", "--workspace", "--locked", "--bin", "gpool"]);
    build.args(test::FEATURES);
    if !step::succeeds("build of gpool", build)? {
        return Ok(false);
    }
    let cluster = TestCluster::start()?;
    let mut rows = Vec::new();
    let mut are_fine = true;
    for client in all.iter().filter(|it| names.is_empty() || names.contains(&it.name.as_str())) {
        step::announce(&client.name);
        let outcome = install(client).and_then(|python| cluster.try_client(client, &python));
        are_fine &= outcome.is_ok();
        let result = outcome.unwrap_or_else(|error| format!("fails: {error:#}"));
        rows.push([client.name.clone(), client.packages.join(" "), result]);
    }
    drop(cluster);
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let (names, packages) = (width(0), width(1));
    println!();
    for [name, of, result] in &rows {
        println!("{name:names$}  {of:packages$}  {result}");
    }
    Ok(are_fine)
}

/// The rows of the table that this command runs.
fn clients() -> anyhow::Result<Vec<Client>> {
    let path = step::root().join(FOLDER).join("clients.tsv");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let own = rows.filter(|row| row.get(2) == Some(&"clients"));
    let client = |row: Vec<&str>| Client {
        name: row[0].to_owned(),
        packages: row[1].split(", ").map(str::to_owned).collect(),
    };
    Ok(own.map(client).collect())
}

/// Installs a client unless its versions are there; returns the folder of its programs.
fn install(client: &Client) -> anyhow::Result<PathBuf> {
    let folder = format!("target/clients-{}", client.name);
    let path = step::root().join(&folder);
    let (bin, stamp) = (path.join("bin"), path.join("installed.txt"));
    let pins = client.packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == pins) {
        return Ok(bin);
    }
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("removing {folder}"))?;
    }
    let venv = step::command("python3", &["-m", "venv", &folder]);
    let mut pip = step::command(bin.join("pip"), &["install", "--disable-pip-version-check"]);
    pip.args(["--quiet", "--retries=2"]).args(&client.packages);
    if !step::succeeds("a virtual environment", venv)? || !step::succeeds(&pins, pip)? {
        bail!("it can't be installed");
    }
    // Written last, so that an interrupted installation is repeated.
    fs::write(&stamp, pins).context("writing what was installed")?;
    Ok(bin)
}

/// A server with simulated GPUs in a folder of its own, and links with the names of Slurm's
/// commands.
struct TestCluster {
    folder: PathBuf,
    gpool: PathBuf,
}

impl TestCluster {
    fn start() -> anyhow::Result<Self> {
        // A socket's path must be short, so it is not below the repository.
        let folder = std::env::temp_dir().join(format!("gpool-clients-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let target = step::metadata()?.target_directory;
        let cluster = Self { folder, gpool: target.join("debug/gpool").into() };
        let devices = step::root().join(FOLDER).join("nodes.toml");
        let mut up = cluster.command(&cluster.gpool);
        up.args(["up", "--quiet", "--devices"]).arg(devices);
        let mut links = cluster.command(&cluster.gpool);
        links.args(["install-shims", "--quiet", "--slurm"]).arg(cluster.folder.join("bin"));
        links.stdout(Stdio::null());
        if !step::succeeds("a server", up)? || !step::succeeds("commands of Slurm", links)? {
            bail!("gpool does not start; see the output above");
        }
        Ok(cluster)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = step::command(program, &[]);
        command
            .env("GPOOL_SOCKET", self.folder.join("api.sock"))
            .env("GPOOL_STATE_DIR", self.folder.join("state"))
            // Clients write settings and records there.
            .env("HOME", &self.folder);
        command
    }

    /// Runs the script of a client; returns its last line.
    fn try_client(&self, client: &Client, bin: &Path) -> anyhow::Result<String> {
        let work = self.folder.join(&client.name);
        fs::create_dir(&work).context("creating a folder")?;
        let output = work.join("output.txt");
        let file = fs::File::create(&output).context("creating a file for the output")?;
        let script = format!("{FOLDER}/with_{}.py", client.name);
        let own = self.folder.join("bin");
        let mut command = self.command(&bin.join("python"));
        command
            .arg(step::root().join(script))
            .current_dir(&work)
            .env("PATH", format!("{}:{}:/usr/bin:/bin", own.display(), bin.display()))
            .stdout(file.try_clone().context("sharing a file")?)
            .stderr(file)
            // A client that hangs is ended with its own processes.
            .process_group(0);
        let succeeded = ended(command.spawn().context("starting python")?)?;
        let text = fs::read(&output).context("reading the output")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        if !succeeded {
            println!("{}", lines[lines.len().saturating_sub(LINES_MAX)..].join("\n"));
        }
        let last = lines.last().map_or("no output", |line| line).to_owned();
        if succeeded { Ok(last) } else { bail!("{last}") }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let mut down = self.command(&self.gpool);
        down.args(["down", "--now", "--quiet"]);
        let is_down = step::succeeds("the end of the server", down);
        let removed = fs::remove_dir_all(&self.folder);
        if !is_down.is_ok_and(|it| it) || removed.is_err() {
            eprintln!("{} is left", self.folder.display());
        }
    }
}

/// Waits for the end of a process; returns whether it succeeded. One that runs for too long is
/// ended with its group.
fn ended(mut child: Child) -> anyhow::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a client")? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            let group = format!("-{}", child.id());
            let end = step::command("kill", &["-KILL", "--", &group]);
            step::succeeds("end of a client that hangs", end)?;
            child.wait().context("waiting for a client")?;
            bail!("no result after {} s", PATIENCE.as_secs());
        }
        thread::sleep(PAUSE);
    }
}
