//! A server of its own in a temporary folder, ended with whoever started it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_client::Client;
use gpool_device::{DevicesArg, NodeDevices, Opened};
use gpool_model::NodeName;
use tempfile::TempDir;

use super::PATIENCE;
use gpool_wire::catalogue;

/// What its node is called, or what the names of several begin with.
const NAME: &str = "demo";

/// Eight devices, for machines without any.
const SIMULATED: &str = "sim:8xH100-80G";

/// Which devices a cluster is started with.
pub struct Devices {
    /// What `up --devices` is given.
    pub argument: String,
    /// The same for people.
    pub words: String,
}

/// The devices asked for; else those of this machine; else simulated ones.
///
/// # Errors
/// What was asked for names no devices.
pub fn choose_devices(asked: Option<&str>) -> Result<Devices> {
    if let Some(asked) = asked {
        DevicesArg::parse(asked)
            .and_then(|choice| choice.nodes(&NodeName::new(NAME)))
            .map_err(|error| Failure::new(catalogue::INVALID, error.to_string()))?;
        return Ok(Devices { argument: asked.to_owned(), words: format!("devices: {asked}") });
    }
    let nvml = NodeDevices::Nvml.open(&NodeName::new(NAME), Path::new("/nonexistent"));
    let why = match nvml {
        Opened::Source(source) => match source.outline() {
            Ok(outline) if outline.n_devices > 0 => {
                let words = format!("this machine's {} GPUs", outline.n_devices);
                return Ok(Devices { argument: "nvml".to_owned(), words });
            }
            Ok(_) => "the driver lists none".to_owned(),
            Err(error) => error.to_string(),
        },
        Opened::Nothing { why } => why,
    };
    let words = format!("no GPUs here ({why}), so eight simulated ones; the processes are real");
    Ok(Devices { argument: SIMULATED.to_owned(), words })
}

/// A cluster of one node. Dropping it ends the server and what runs, and removes the folder.
pub struct Cluster {
    client: Client,
    server: Option<Child>,
    folder: Option<TempDir>,
    socket: PathBuf,
    devices: String,
}

impl Cluster {
    /// Starts a server with these devices and waits until it answers.
    ///
    /// # Errors
    /// It does not start; what it said is repeated.
    pub fn start(devices: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gpool-demo-").tempdir();
        let folder = folder.map_err(|error| io("make a temporary folder", &error))?;
        let socket = folder.path().join("api.sock");
        let mut cluster = Self {
            client: Client::at(&socket),
            server: None,
            folder: Some(folder),
            socket,
            devices: devices.to_owned(),
        };
        cluster.start_server()?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts a server on what is in the folder, and does not wait for it.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start_server(&mut self) -> Result<()> {
        let log = File::create(self.log_path());
        let log = log.map_err(|error| io("write the server's log", &error))?;
        let errors = log.try_clone().map_err(|error| io("write the server's log", &error))?;
        let own = std::env::current_exe().map_err(|error| io("find this program", &error))?;
        let server = Command::new(own)
            .args(["up", "--foreground", "--devices", &self.devices])
            .args(if self.names_nodes() { &[][..] } else { &["--name", NAME] })
            .arg("--state-dir")
            .arg(self.folder().join("state"))
            .arg("--socket")
            .arg(&self.socket)
            // Settings of the machine are not for it.
            .env("GPOOL_CONFIG", "/dev/null")
            // Ctrl-C is for the demo, which then ends its server properly.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| io("start the server", &error))?;
        self.server = Some(server);
        Ok(())
    }

    /// Whether a file names its nodes. One that has gone since is told of by the server.
    fn names_nodes(&self) -> bool {
        let asked = DevicesArg::parse(&self.devices);
        let nodes = asked.and_then(|asked| asked.nodes(&NodeName::new(NAME)));
        nodes.is_ok_and(|nodes| nodes.are_named)
    }

    /// Kills the server as a crash does; what runs goes on.
    ///
    /// # Errors
    /// It can't be killed.
    pub fn kill_server(&mut self) -> Result<()> {
        match self.server.take() {
            Some(mut server) => {
                server.kill().map_err(|error| io("kill the server", &error))?;
                server.wait().map(drop).map_err(|error| io("wait for the server", &error))
            }
            None => Ok(()),
        }
    }

    /// Waits until the server takes requests.
    ///
    /// # Errors
    /// It ends before, or does not answer in time; what it said is repeated.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::at(&self.socket).with_retries(Duration::ZERO);
        let deadline = Instant::now() + PATIENCE;
        while client.ready().is_err() {
            let ended = self.server.as_mut().map(Child::try_wait).transpose();
            let ended = ended.map_err(|error| io("watch the server", &error))?.flatten();
            if ended.is_some() || Instant::now() > deadline {
                drop(self.kill_server());
                let said = std::fs::read_to_string(self.log_path()).unwrap_or_default();
                let what = "the server of the demo did not start";
                let failure = Failure::new(errors::DEMO_FAILED, what);
                return Err(said.lines().take(20).fold(failure, |failure, line| failure.why(line)));
            }
            // Nothing tells when a socket begins to answer.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    /// A client of its server.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where its server listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// The process id of its server.
    #[must_use]
    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    /// Leaves everything there and says where.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        self.server = None;
        self.folder.take().map(TempDir::keep).unwrap_or_default()
    }

    /// Ends what runs and the server, and removes the folder.
    ///
    /// # Errors
    /// The folder can't be removed.
    pub fn end(mut self) -> Result<()> {
        self.stop_server();
        match self.folder.take() {
            Some(folder) => folder.close().map_err(|error| io("remove the folder", &error)),
            None => Ok(()),
        }
    }

    fn stop_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            // One that does not stop when asked is killed.
            if self.client.shutdown(true).is_err() {
                drop(server.kill());
            }
            drop(server.wait());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop_server();
    }
}

fn io(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(errors::DEMO_FAILED, format!("can't {what}: {error}"))
}
