//! Other machines of a cluster: each has a folder of its own, with an agent.

use std::path::PathBuf;

use rustix::process::Signal;

use super::processes::within;
use super::{Cluster, Ran, Running, kill_9, processes_of, until_so};

/// Another machine with an agent.
pub struct Machine<'c> {
    cluster: &'c Cluster,
    folder: PathBuf,
    devices: &'static str,
    /// Its `gpool.toml`.
    pub settings: Option<PathBuf>,
    /// Further variables of its agent.
    pub variables: Vec<(String, String)>,
    /// The words before its commands.
    within: Vec<String>,
    agent: Option<Running>,
}

impl<'c> Machine<'c> {
    /// A machine with the folder of this name, which it may have had before.
    pub fn new(cluster: &'c Cluster, name: &str, devices: &'static str) -> Self {
        let folder = cluster.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (within, variables) = (Vec::new(), Vec::new());
        Self { cluster, folder, devices, within, settings: None, variables, agent: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The same on a host.
    pub fn on(mut self, host: Vec<String>) -> Self {
        self.within = host;
        self
    }

    pub fn start(&mut self, words: &[&str]) {
        let mut command = self.cluster.command();
        command.env("GPOOL_STATE_DIR", &self.folder).env_remove("GPOOL_SOCKET");
        command.env_remove("GPOOL_CONFIG");
        command.envs(self.settings.iter().map(|path| ("GPOOL_CONFIG", path)));
        command.envs(self.variables.iter().cloned());
        command.arg("agent").args(words).args(["--devices", self.devices]);
        let words: Vec<&str> = self.within.iter().map(String::as_str).collect();
        let mut command = if words.is_empty() { command } else { within(&command, &words) };
        self.agent = Some(Running::start(&mut command, None));
    }

    /// Starts the agent by the printed command.
    pub fn join(&mut self, name: &str) {
        let printed = self.cluster.gpool(["node", "add", name]).ok();
        let words: Vec<&str> = printed.split_whitespace().collect();
        assert_eq!(words[..2], ["gpool", "agent"], "{printed}");
        self.start(&words[2..]);
        self.until_connected(name);
    }

    /// The same with another address of the server.
    pub fn join_at(&mut self, name: &str, server: &str) {
        let made = self.cluster.gpool(["node", "add", name, "--json"]).json();
        self.start(&["--join", server, made["token"].as_str().unwrap()]);
        self.until_connected(name);
    }

    pub fn until_connected(&self, name: &str) {
        until_so("the node is up", || {
            let running = self.agent.as_ref().unwrap();
            assert!(!running.has_said("error:"), "{}", running.said());
            membership(self.cluster, name).as_deref() == Some("connected")
        });
    }

    #[track_caller]
    pub fn until_says(&self, words: &str) {
        self.agent.as_ref().unwrap().until_says(words);
    }

    /// The agent dies; its jobs go on.
    pub fn kill_agent(&mut self) {
        let agent = self.agent.take().unwrap();
        agent.signal(Signal::KILL);
        agent.end();
    }

    /// Every process of the machine dies at once.
    pub fn power_off(&mut self) {
        self.kill_agent();
        let all = || processes_of(&self.folder);
        until_so("all are dead", || {
            all().into_iter().for_each(kill_9);
            all().is_empty()
        });
    }

    pub fn end(&mut self) -> Ran {
        self.agent.take().unwrap().end()
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.signal_if_there(Signal::KILL);
            agent.end();
        }
    }
}

/// The membership of a node.
pub fn membership(cluster: &Cluster, name: &str) -> Option<String> {
    let nodes = cluster.client().nodes().unwrap().items;
    nodes.into_iter().find(|node| node.name == name).map(|node| node.membership)
}
