//! The end of a run: faults cease, and live processes are not restarted. Within a time limit all
//! work that can end has to end, and server, agents and machines have to agree.

use std::collections::BTreeMap;

use gpool_model::Record;
use gpool_model::job::{ExitStatus, JobState};

use crate::broken::Invariant;
use crate::machine::Real;
use crate::sim::Sim;

impl Sim {
    /// How long it may take: lost orders and reports are noticed after at most a minute.
    const BOUND: u64 = 600_000;
    /// More rounds than any run needs at one moment.
    const ROUNDS: u64 = 20_000;

    /// Lets everything come to rest, and checks that it is at rest.
    pub fn settle(&mut self) {
        self.heal();
        let deadline = self.now + Self::BOUND + self.behind();
        let mut is_open = false;
        for _ in 0..Self::ROUNDS {
            let before = self.activity();
            self.round();
            self.check();
            if self.broken.is_some() {
                return;
            }
            if self.activity() != before {
                continue;
            }
            if self.is_at_rest() {
                return self.check_rest();
            }
            if !is_open && self.resume_all() {
                is_open = true;
                continue;
            }
            match self.next_due().filter(|at| *at <= deadline) {
                Some(at) => {
                    self.now = at;
                    self.do_due();
                }
                None => {
                    let what = format!("it does not come to rest: {}", self.unrest());
                    return self.blame(Invariant::Settling, what);
                }
            }
        }
        self.blame(Invariant::Settling, format!("it never stops: {}", self.unrest()));
    }

    /// Faults cease.
    fn heal(&mut self) {
        self.store.is_full = false;
        for link in &mut self.links {
            link.is_cut_down = false;
            link.is_cut_up = false;
            link.lag = 0;
            link.hasten();
        }
        if let Some(server) = &mut self.server {
            server.effects_left = None;
        }
        if self.server.as_ref().is_some_and(|server| server.is_stopping) {
            // It ends when all is durable, and the next one goes on.
            self.kill_server(u64::MAX);
        }
        self.start_server();
        for m in 0..self.machines.len() {
            self.machines[m].real.fill(Real::Well);
            if let Some(agent) = &mut self.machines[m].agent {
                agent.acts_left = None;
            }
            self.start_agent(m);
        }
    }

    /// How far the server's clock is behind the latest time that it has seen; its time stands still
    /// that long.
    fn behind(&self) -> u64 {
        let held = self.server.as_ref().map(|server| server.life.clock());
        held.map_or(0, |held| held.since(self.server_clock()).get())
    }

    /// Everything that can happen at once does.
    fn round(&mut self) {
        while !self.store.in_flight.is_empty() {
            self.persist();
        }
        while !self.store.told.is_empty() {
            self.hear();
        }
        self.take_inbox();
        while !self.post.under_way.is_empty() {
            self.receive(0, 0);
        }
        for at in self.unanswered() {
            self.askings[at].is_deaf = false;
            self.ask(at);
        }
        for m in 0..self.machines.len() {
            while !self.links[m].orders.is_empty() {
                let sent = self.links[m].orders.remove(0);
                self.obey(m, sent);
            }
            self.look(m);
            self.check_devices(m, 0);
            while !self.machines[m].forked.is_empty() {
                self.claim(m, 0);
            }
            self.start_agent(m);
            while !self.machines[m].unconnected().is_empty() {
                self.connect(m, 0);
            }
            while !self.machines[m].unstarted().is_empty() {
                self.start_program(m, 0);
            }
            while !self.machines[m].told().is_empty() {
                self.read_told(m, 0, false);
            }
            // Programs that are paused end only after they went on.
            let running = self.machines[m].running();
            for task in &running {
                let claim = &self.machines[m].claims[task];
                if claim.has_shepherd && claim.is_on_devices() {
                    self.end_program(m, *task, ExitStatus::Code(0));
                }
            }
            while !self.links[m].reports.is_empty() {
                self.deliver_report(m, 0, false);
            }
        }
        self.take_inbox();
    }

    /// Grows whenever anything happens.
    fn activity(&self) -> (u64, u64, usize) {
        let revision = self.server.as_ref().map_or(0, |server| server.control.revision().0);
        (self.n_actions, revision, self.totals_of_work())
    }

    fn totals_of_work(&self) -> usize {
        let pools = self.links.iter().map(|link| link.orders.len() + link.reports.len());
        pools.sum::<usize>() + self.store.in_flight.len() + self.store.told.len()
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.unrest().is_empty()
    }

    /// Describes the work that is not at rest; empty if all is.
    fn unrest(&self) -> String {
        let mut found = Vec::new();
        let Some(server) = &self.server else { return "there is no server".to_owned() };
        if server.paused_until.is_some() {
            found.push("the server waits for its store".to_owned());
        }
        for row in server.control.world().job_rows() {
            let state = row.job.phase.state();
            // An array is under way as long as one of its elements is left, held ones too.
            let n_rows = server.control.world().n_rows_of(row.job.id.number);
            let is_left = row.job.array.is_some() && n_rows > 0;
            if state > JobState::Pending && !is_left {
                found.push(format!("job {} is {state}", row.job.id));
            }
        }
        for (machine, link) in self.machines.iter().zip(&self.links) {
            let name = &machine.node.name;
            if !machine.is_clean() {
                let claims: Vec<String> = machine.claims.keys().map(ToString::to_string).collect();
                let known = machine.agent.as_ref().map(|agent| agent.converge.tasks());
                let claims = claims.join(" ");
                found.push(format!("something is left on {name}: claims {claims}; {known:?}"));
            }
            if !link.is_quiet() {
                found.push(format!("messages are on their way to or from {name}"));
            }
            match server.control.world().node(name) {
                None => found.push(format!("the server does not know {name}")),
                Some(row) if !row.node.is_reachable() => {
                    found.push(format!("the server takes {name} for away"));
                }
                Some(row) if row.node.devices != machine.view() => {
                    found.push(format!("the server has a wrong idea of the devices of {name}"));
                }
                Some(_) => {}
            }
        }
        if !self.post.under_way.is_empty() {
            found.push("a message is on its way".to_owned());
        }
        if !self.unanswered().is_empty() {
            found.push("a request has no answer".to_owned());
        }
        found.join("; ")
    }

    fn check_rest(&mut self) {
        let Some(server) = &self.server else { return };
        let records: Vec<Record> = self.store.records.values().cloned().collect();
        let mut believed = server.control.world().records();
        believed.sort_by_key(Record::key);
        if records != believed {
            let differ = records.iter().zip(&believed).find(|(one, other)| one != other);
            let what = format!("the durable state differs from that in memory: {differ:?}");
            return self.blame(Invariant::Store, what);
        }
        self.check_post();
        if let Some(task) = self.watch.users.values().flat_map(BTreeMap::keys).next() {
            let what = format!("{task} is still on a device");
            return self.blame(Invariant::Settling, what);
        }
        // It is looked at even if nothing has changed since the last look.
        self.watch.planned = None;
        self.check();
        self.check_load_order();
        if let Some(server) = self.server.take() {
            self.replay(&server.life, server.control.world());
            self.server = Some(server);
        }
    }
}
