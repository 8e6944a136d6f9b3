//! A private server in a temporary folder that ends with this program, for demonstrations and
//! measurements.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpool_client::Client;
use tempfile::TempDir;

use crate::errors;
use crate::failure::{Failure, Result};

/// Time limit for the start of a server and for the end of a short job.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The name of the node, or the prefix for several nodes.
pub const NAME: &str = "demo";

/// The configuration of a private cluster.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The path of the program `gpool`.
    pub program: PathBuf,
    /// The value of `up --devices`.
    pub devices: String,
    /// Whether the devices come from a file that names the nodes.
    pub are_named: bool,
    /// The address to listen on for clients over the network.
    pub listen: Option<SocketAddr>,
}

/// A cluster with a private server. Dropping it ends the server and its jobs, and removes the
/// folder.
pub struct Cluster {
    client: Client,
    server: Option<Child>,
    folder: Option<TempDir>,
    socket: PathBuf,
    setup: Setup,
}

impl Cluster {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It does not start; the failure repeats its output.
    pub fn start(setup: Setup) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gpool-demo-").tempdir();
        let folder = folder.map_err(|error| io("create a temporary folder", &error))?;
        let socket = folder.path().join("api.sock");
        let mut cluster =
            Self { client: Client::at(&socket), server: None, folder: Some(folder), socket, setup };
        cluster.start_server()?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts a server on the folder without waiting for it.
    pub fn start_server(&mut self) -> Result<()> {
        let log = File::create(self.log_path());
        let log = log.map_err(|error| io("write the server's log", &error))?;
        let errors = log.try_clone().map_err(|error| io("write the server's log", &error))?;
        let server = Command::new(&self.setup.program)
            .args(["up", "--foreground", "--devices", &self.setup.devices])
            .args(if self.setup.are_named { &[][..] } else { &["--name", NAME] })
            .arg("--state-dir")
            .arg(self.folder().join("state"))
            .arg("--socket")
            .arg(&self.socket)
            .args(self.setup.listen.map(|it| format!("--listen={it}")))
            // The settings of the machine do not apply here.
            .env("GPOOL_CONFIG", "/dev/null")
            // Ctrl-C must reach only this program, which then ends its server properly.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| io("start the server", &error))?;
        self.server = Some(server);
        Ok(())
    }

    /// Kills the server like a crash; running jobs go on.
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
    /// It ends early, or does not answer in time; the failure repeats its output.
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
            // There is no event for the first answer of a socket, so this polls.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("server.log")
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The path of the server's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// The process id of the server.
    #[must_use]
    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    /// Keeps the server and its files, and returns the folder.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        self.server = None;
        self.folder.take().map(TempDir::keep).unwrap_or_default()
    }

    /// Ends the jobs and the server, and removes the folder.
    pub fn end(mut self) -> Result<()> {
        self.stop_server();
        match self.folder.take() {
            Some(folder) => folder.close().map_err(|error| io("remove the folder", &error)),
            None => Ok(()),
        }
    }

    fn stop_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            // A server that refuses to stop is killed.
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
