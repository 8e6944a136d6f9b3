//! Three hosts under load, a server and two agents, while their network is cut and their processes
//! are killed, on either side of a cut. At the end every host is whole again, and the promises are
//! checked with the records of all three.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gpool_shepherd::layout;
use rustix::process::{Pid, Signal};

use super::checker::violations;
use super::history::Fate;
use super::load::Load;
use super::numbers::{Numbers, rounds, seed};
use super::siege::{claims_in, drain, pick_shepherd, read_history};
use crate::harness::{Cluster, Cut, Hosts, Running, kill_9, membership, until_so, within};

/// The usual number of faults.
const FAULTS: u64 = 40;
/// The longest cut in milliseconds.
const CUT_MAX: u64 = 1500;
/// One cut in this number lasts longer than an agent may be silent.
const ONE_IN: u64 = 20;
const LONG_CUT: Duration = Duration::from_secs(6);

/// A host with an agent.
struct AgentHost {
    name: &'static str,
    node: &'static str,
    folder: PathBuf,
    within: Vec<String>,
    agent: Option<Running>,
}

impl AgentHost {
    fn new(cluster: &Cluster, hosts: &Hosts, name: &'static str, node: &'static str) -> Self {
        let folder = cluster.path(node);
        std::fs::create_dir(&folder).unwrap();
        Self { name, node, folder, within: hosts.on(name), agent: None }
    }

    /// The state folder of its agent.
    fn state(&self) -> PathBuf {
        self.folder.join("agent")
    }

    fn start(&mut self, cluster: &Cluster, words: &[&str]) {
        let mut command = cluster.command();
        command.env("GPOOL_STATE_DIR", &self.folder).env_remove("GPOOL_SOCKET");
        command.arg("agent").args(words).args(["--devices", "sim:2xA100-80G"]);
        let words: Vec<&str> = self.within.iter().map(String::as_str).collect();
        self.agent = Some(Running::start(&mut within(&command, &words), None));
    }

    fn join(&mut self, cluster: &Cluster) {
        let printed = cluster.gpool(["node", "add", self.node]).ok();
        let words: Vec<&str> = printed.split_whitespace().skip(2).collect();
        self.start(cluster, &words);
        self.until_connected(cluster);
    }

    fn until_connected(&self, cluster: &Cluster) {
        let is_connected = || membership(cluster, self.node).as_deref() == Some("connected");
        until_so("the host is there", is_connected);
    }

    fn kill_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.signal_if_there(Signal::KILL);
            agent.end();
        }
    }

    /// Every process of the host dies at the same moment: none sees the death of another.
    fn power_off(&mut self, hosts: &Hosts) {
        let stop = |pid: &u32| {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            pid.map(|pid| rustix::process::kill_process(pid, Signal::STOP).is_ok());
        };
        let mut stopped = Vec::new();
        until_so("all processes stand still", || {
            let all = hosts.processes(self.name);
            all.iter().for_each(stop);
            std::mem::replace(&mut stopped, all.clone()) == all
        });
        until_so("all are dead", || {
            let all = hosts.processes(self.name);
            all.iter().copied().for_each(kill_9);
            // This process has the agent's end still to read.
            all.iter().all(|pid| self.agent.as_ref().is_some_and(|it| it.pid() == *pid))
        });
        self.kill_agent();
    }

    /// The jobs that it has claimed.
    fn jobs(&self) -> Vec<u64> {
        let claims = claims_in(&[self.state()]).into_iter();
        let name = |path: PathBuf| path.file_name()?.to_str()?.split('#').next()?.parse().ok();
        claims.filter_map(name).collect()
    }
}

/// The server, the hosts of agents, and their faults so far.
struct NetworkSiege {
    cluster: Cluster,
    hosts: Hosts,
    agents: Vec<AgentHost>,
    numbers: Numbers,
    killed: BTreeMap<u64, Fate>,
    done: Vec<String>,
    n_faults: u64,
}

impl NetworkSiege {
    fn new(hosts: Hosts, numbers: Numbers) -> Self {
        let listen = ["--devices", "sim:1xA100-80G", "--listen", "0.0.0.0:7443"];
        let mut cluster = Cluster::unstarted(&listen);
        cluster.within = hosts.on("s");
        let file = cluster.path("gpool.toml");
        let settings = format!("tls_names = [\"{}\"]\nnode_lease = \"3s\"\n", hosts.address("s"));
        std::fs::write(&file, settings).unwrap();
        cluster.variables = vec![("GPOOL_CONFIG".to_owned(), file.display().to_string())];
        cluster.up();
        let host = |name, node| AgentHost::new(&cluster, &hosts, name, node);
        let mut agents = vec![host("a", "lab2"), host("b", "lab3")];
        agents.iter_mut().for_each(|agent| agent.join(&cluster));
        let (killed, done) = (BTreeMap::new(), Vec::new());
        Self { cluster, hosts, agents, numbers, killed, done, n_faults: 0 }
    }

    /// Lets clients and jobs continue for a random time; nothing waits for a condition by it.
    fn go_on(&mut self, bound_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.numbers.below(bound_ms)));
    }

    fn fault(&mut self, what: String) {
        self.done.push(what);
        self.n_faults += 1;
    }

    fn kill_server(&mut self) {
        self.fault("server killed".to_owned());
        self.cluster.kill();
        self.cluster.up();
    }

    fn kill_agent(&mut self, ix: usize) {
        self.fault(format!("agent of {} killed", self.agents[ix].node));
        self.agents[ix].kill_agent();
        self.go_on(200);
        self.agents[ix].start(&self.cluster, &[]);
    }

    fn kill_shepherd(&mut self) {
        let mut states: Vec<PathBuf> = self.agents.iter().map(AgentHost::state).collect();
        states.extend(layout::folders(&self.cluster.state()));
        let picked = pick_shepherd(claims_in(&states), &mut self.numbers);
        if let Some((id, pid)) = picked {
            self.fault(format!("shepherd of {id} killed"));
            self.killed.insert(id, Fate::Any);
            kill_9(pid);
        }
    }

    fn power_off(&mut self, ix: usize) {
        self.fault(format!("{} switched off", self.agents[ix].node));
        // Jobs that it claims meanwhile die too.
        let before = self.agents[ix].jobs();
        self.agents[ix].power_off(&self.hosts);
        let jobs = before.into_iter().chain(self.agents[ix].jobs());
        self.killed.extend(jobs.map(|id| (id, Fate::Any)));
        self.agents[ix].start(&self.cluster, &[]);
    }

    /// Cuts a host off for a while, and sometimes kills something meanwhile.
    fn cut(&mut self) {
        let name = *self.numbers.pick(&["s", "a", "b"]).unwrap();
        let cut = *self.numbers.pick(&Cut::ALL).unwrap();
        if !self.hosts.cut(name, cut) {
            return;
        }
        self.fault(format!("{name} cut: {cut:?}"));
        self.go_on(CUT_MAX);
        match self.numbers.below(6) {
            0 => self.kill_server(),
            1 => {
                let ix = self.an_agent();
                self.kill_agent(ix);
            }
            _ => {}
        }
        if self.numbers.below(ONE_IN) == 0 {
            std::thread::sleep(LONG_CUT);
        }
        self.hosts.heal(name);
    }

    fn an_agent(&mut self) -> usize {
        usize::try_from(self.numbers.below(2)).unwrap()
    }
}

#[test]
fn cut_and_killed_on_three_hosts_nothing_is_lost_and_nothing_runs_twice() {
    let Some(hosts) = Hosts::new(&["s", "a", "b"]) else { return };
    let mut siege = NetworkSiege::new(hosts, Numbers::new(seed()));
    let load = Load::start(&siege.cluster, 2, None, &mut siege.numbers);
    let n_faults = rounds(FAULTS);
    while siege.n_faults < n_faults {
        siege.go_on(200);
        let ix = siege.an_agent();
        match siege.numbers.below(10) {
            0..=4 => siege.cut(),
            5 => siege.kill_server(),
            6 | 7 => siege.kill_agent(ix),
            8 => siege.kill_shepherd(),
            _ => siege.power_off(ix),
        }
    }
    siege.agents.iter().for_each(|agent| agent.until_connected(&siege.cluster));
    let done = load.stop();
    drain(&siege.cluster, &siege.done);
    let states: Vec<PathBuf> = siege.agents.iter().map(AgentHost::state).collect();
    until_so("every claim is over", || claims_in(&states).is_empty());
    siege.agents.iter_mut().for_each(AgentHost::kill_agent);
    let agents: Vec<PathBuf> = states.into_iter().chain([siege.cluster.state()]).collect();
    let history = read_history(&mut siege.cluster, &agents, done, Vec::new(), siege.killed);
    eprintln!("{} faults, {} jobs", siege.n_faults, history.asked.len());
    let found = violations(&history);
    assert!(found.is_empty(), "{}\ndone: {:#?}", found.join("\n"), siege.done);
}
