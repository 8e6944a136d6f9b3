//! Draws the next event of a swarm: one that can happen now, with the swarm's frequency of its
//! kind.

use gpool_model::job::JobState;

use crate::happening::{Happening, Kind};
use crate::haste::{can_check, haste, host, orphan};
use crate::rng::Rng;
use crate::sim::Sim;
use crate::swarm::Swarm;

/// Draws happenings.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    /// By itself, so that what else is drawn of a seed stays as it is.
    gangs: Rng,
    /// And so are projects.
    projects: Rng,
    /// And so are shares with limits.
    shares: Rng,
    /// And so are pauses and sizes.
    pauses: Rng,
    /// And so are leases.
    leases: Rng,
    /// How many projects are yet to be made before all else.
    n_to_make: u64,
    swarm: Swarm,
}

impl Generator {
    /// The happenings of a seed, after what its swarm took.
    #[must_use]
    pub fn new(swarm: &Swarm) -> Self {
        Self {
            rng: Rng::new(swarm.seed ^ 0x6770_6f6f_6c00_0000),
            gangs: Rng::new(swarm.seed ^ 0x6761_6e67_7300_0000),
            projects: Rng::new(swarm.seed ^ 0x7072_6f6a_0000_0000),
            shares: Rng::new(swarm.seed ^ 0x7368_6172_6573_0000),
            pauses: Rng::new(swarm.seed ^ 0x7061_7573_6573_0000),
            leases: Rng::new(swarm.seed ^ 0x6c65_6173_6573_0000),
            n_to_make: swarm.projects,
            swarm: swarm.clone(),
        }
    }

    /// What happens next.
    pub fn next(&mut self, sim: &Sim) -> Happening {
        if let Some(left) = self.n_to_make.checked_sub(1) {
            self.n_to_make = left;
            return Happening::new(Kind::Project, &self.project(Some(left)));
        }
        let weights: Vec<u64> = Kind::ALL
            .iter()
            .zip(&self.swarm.weights)
            .map(|(kind, weight)| match *weight > 0 && self.can(sim, *kind) {
                // Programs outlive a lease only if they run for a while.
                true if *kind == Kind::Exit && self.swarm.cluster.leases => weight.div_ceil(24),
                // And so they meet on a device.
                true if *kind == Kind::Exit && self.swarm.pauses > 0 => weight.div_ceil(24),
                // Borrowers that give back are not paused.
                true if *kind == Kind::Shrink && self.swarm.pauses > 0 => weight.div_ceil(16),
                true if *kind == Kind::Exit && self.swarm.shares > 0 => weight.div_ceil(4),
                true => haste(sim, *kind, *weight),
                false => 0,
            })
            .collect();
        let mut at = self.rng.below(weights.iter().sum());
        for (kind, weight) in Kind::ALL.iter().zip(weights) {
            if at < weight {
                return self.draw(sim, *kind);
            }
            at -= weight;
        }
        Happening::new(Kind::Pass, &[1])
    }

    fn can(&self, sim: &Sim, kind: Kind) -> bool {
        let any = |test: &dyn Fn(usize) -> bool| (0..sim.machines.len()).any(test);
        let has_server = sim.server.is_some();
        match kind {
            Kind::Submit => {
                u64::try_from(sim.live_jobs().len()).expect("few") < self.swarm.live_most
            }
            Kind::Resize => !sim.resizable().is_empty(),
            Kind::Pause => !sim.holding(JobState::Running).is_empty(),
            Kind::Resume => !sim.holding(JobState::Paused).is_empty(),
            kind if kind.is_on_job() => !sim.live_jobs().is_empty(),
            Kind::Again => !sim.ended_elements().is_empty(),
            Kind::Retry => has_server && !sim.unanswered().is_empty(),
            Kind::Order | Kind::RepeatOrder | Kind::LoseOrder | Kind::DelayOrder => {
                any(&|m| !sim.links[m].orders.is_empty())
            }
            Kind::Report | Kind::RepeatReport | Kind::LoseReport | Kind::DelayReport => {
                any(&|m| !sim.links[m].reports.is_empty())
            }
            Kind::Commit | Kind::Persist | Kind::FailCommit => !sim.store.in_flight.is_empty(),
            Kind::Hear => !sim.store.told.is_empty(),
            Kind::Send => !sim.post.under_way.is_empty(),
            Kind::Check | Kind::Snatch => any(&|m| can_check(&sim.machines[m])),
            Kind::Claim => any(&|m| !sim.machines[m].forked.is_empty()),
            Kind::Start | Kind::FailStart => any(&|m| !sim.machines[m].unstarted().is_empty()),
            Kind::Exit => any(&|m| !sim.machines[m].running().is_empty()),
            Kind::Step | Kind::FailStep => any(&|m| !sim.machines[m].told().is_empty()),
            Kind::Connect => any(&|m| !sim.machines[m].unconnected().is_empty()),
            Kind::Grow | Kind::Surge => any(&|m| !sim.machines[m].growing().is_empty()),
            Kind::Shrink => any(&|m| !sim.machines[m].shrinking().is_empty()),
            Kind::FailRestore => any(&|m| !sim.machines[m].paused().is_empty()),
            Kind::Idle => any(&|m| !sim.machines[m].may_be_idle().is_empty()),
            Kind::KillShepherd => any(&|m| has_shepherd(sim, m)),
            Kind::StartServer => !has_server,
            Kind::Unreserve => has_world(sim, |world| !world.reservations().is_empty()),
            Kind::Undrain => has_world(sim, |world| world.drained().next().is_some()),
            Kind::KillServer | Kind::DoomServer | Kind::StopServer => has_server,
            Kind::StartAgent => any(&|m| sim.can_start_agent(m)),
            Kind::KillAgent | Kind::DoomAgent => any(&|m| sim.machines[m].agent.is_some()),
            Kind::Device => any(&|m| !sim.machines[m].real.is_empty()),
            Kind::Unproject => has_world(sim, |world| world.projects().len() > 1),
            _ => true,
        }
    }

    /// A node on which that can happen.
    fn node(&mut self, sim: &Sim, test: impl Fn(usize) -> bool) -> i64 {
        let able: Vec<usize> = (0..sim.machines.len()).filter(|m| test(*m)).collect();
        if able.is_empty() {
            0
        } else {
            signed(u64::try_from(self.rng.one_of(&able)).expect("few"))
        }
    }

    /// Mostly the first.
    fn pick(&mut self) -> i64 {
        if self.rng.percent(self.swarm.disorder) { signed(self.rng.below(64)) } else { 0 }
    }

    /// Mostly for a few hours, some until released, some every day.
    fn reservation(&mut self) -> Vec<i64> {
        let gpus = if self.rng.percent(40) { signed(self.rng.between(1, 3)) } else { 0 };
        let begins = if self.rng.percent(50) { 0 } else { signed(self.rng.between(1, 5)) };
        let long = if self.rng.percent(30) { 0 } else { signed(self.rng.between(1, 6)) };
        let every = if long > 0 && self.rng.percent(30) { 24 } else { 0 };
        let (whom, then) = (signed(self.rng.below(4)), signed(self.rng.below(4)));
        vec![self.any(), self.any(), gpus, whom, self.any(), begins, long, every, then]
    }

    fn draw(&mut self, sim: &Sim, kind: Kind) -> Happening {
        let mut numbers = self.of_askings(sim, kind);
        numbers = numbers.or_else(|| self.of_messages(sim, kind));
        numbers = numbers.or_else(|| self.of_nodes(sim, kind));
        numbers = numbers.or_else(|| self.of_server(kind));
        Happening::new(kind, &numbers.expect("each kind is one of these"))
    }

    /// What users and admins ask.
    fn of_askings(&mut self, sim: &Sim, kind: Kind) -> Option<Vec<i64>> {
        Some(match kind {
            Kind::Submit => self.submission(),
            Kind::Cancel => {
                let orphan = orphan(sim).filter(|_| self.rng.percent(70));
                let at = orphan.and_then(|job| sim.live_jobs().iter().position(|it| *it == job));
                let (user, any) = (self.user(), self.any());
                match at {
                    // By an admin, with the right to do it.
                    Some(at) => vec![0, i64::try_from(at).expect("few"), self.deaf()],
                    None => vec![user, any, self.deaf()],
                }
            }
            Kind::Edit => {
                let version = if self.rng.percent(20) { signed(self.rng.between(1, 3)) } else { 0 };
                vec![self.user(), self.any(), self.priority(), version, self.deaf()]
            }
            Kind::Extend => {
                let limit = if self.rng.percent(80) { self.rng.between(1, 100) } else { 0 };
                let user = if self.rng.percent(50) { 0 } else { self.user() };
                vec![user, self.any(), signed(limit), self.deaf()]
            }
            Kind::Resize => {
                let parts = [125, 250, 333, 500, 750, 1000];
                let [part, limit] = [(); 2].map(|()| signed(self.pauses.one_of(&parts)));
                let host = host(sim).filter(|_| self.pauses.percent(60));
                let job = host.unwrap_or_else(|| self.pauses.below(64));
                vec![0, signed(job), part, part.max(limit), 0]
            }
            Kind::Pause | Kind::Resume => vec![0, signed(self.pauses.below(64)), 0],
            Kind::Retry => vec![self.any(), self.deaf()],
            Kind::Allow => vec![self.any(), self.any()],
            Kind::Strategy => vec![self.any()],
            Kind::Reserve => self.reservation(),
            Kind::Unreserve | Kind::Undrain => vec![self.any()],
            Kind::Project => self.project(None),
            Kind::Unproject => vec![signed(self.projects.below(64))],
            Kind::Move => vec![signed(self.projects.below(64)), signed(self.projects.below(3))],
            Kind::Preset => vec![signed(self.projects.below(64))],
            Kind::Drain => {
                let hours = if self.rng.percent(50) { signed(self.rng.between(1, 5)) } else { 0 };
                vec![self.any(), self.any(), hours, signed(self.rng.below(4))]
            }
            Kind::Look => vec![self.any()],
            kind if kind.is_on_job() || kind == Kind::Again => {
                kind.arguments().iter().map(|name| self.argument(name)).collect()
            }
            _ => return None,
        })
    }

    /// Draws an argument of a verb on jobs, by its name.
    fn argument(&mut self, name: &str) -> i64 {
        match name {
            "user" => self.user(),
            "hold" => self.yes(20),
            "deaf" => self.deaf(),
            _ => self.any(),
        }
    }

    /// Draws the fate of messages between server, agents and users.
    fn of_messages(&mut self, sim: &Sim, kind: Kind) -> Option<Vec<i64>> {
        Some(match kind {
            Kind::Order | Kind::RepeatOrder | Kind::LoseOrder => {
                vec![self.node(sim, |m| !sim.links[m].orders.is_empty()), self.pick()]
            }
            Kind::Report | Kind::RepeatReport | Kind::LoseReport => {
                vec![self.node(sim, |m| !sim.links[m].reports.is_empty()), self.pick()]
            }
            Kind::DelayOrder => {
                let node = self.node(sim, |m| !sim.links[m].orders.is_empty());
                vec![node, self.pick(), signed(self.rng.between(1, 3_600_000))]
            }
            Kind::DelayReport => {
                let node = self.node(sim, |m| !sim.links[m].reports.is_empty());
                vec![node, self.pick(), signed(self.rng.between(1, 3_600_000))]
            }
            Kind::CutOrders | Kind::CutReports => vec![self.any(), self.yes(40)],
            Kind::Part => {
                let how = self.leases.one_of(&[0, 0, 1, 2, 3]);
                vec![signed(self.leases.below(64)), signed(how)]
            }
            Kind::Leave => vec![self.node(sim, |m| sim.may_leave(m))],
            Kind::Lag => {
                let ms = self.leases.one_of(&[0, 5_000, 11_000, 11_000]);
                vec![signed(self.leases.below(64)), signed(ms)]
            }
            Kind::Send => vec![self.pick(), signed(self.rng.below(4))],
            _ => return None,
        })
    }

    /// What happens on a machine: to its agent, its shepherds, its devices.
    fn of_nodes(&mut self, sim: &Sim, kind: Kind) -> Option<Vec<i64>> {
        Some(match kind {
            Kind::Check => vec![self.node(sim, |m| can_check(&sim.machines[m])), self.pick()],
            Kind::Claim => {
                vec![self.node(sim, |m| !sim.machines[m].forked.is_empty()), self.pick()]
            }
            Kind::Start | Kind::FailStart => {
                vec![self.node(sim, |m| !sim.machines[m].unstarted().is_empty()), self.pick()]
            }
            Kind::Step | Kind::FailStep => {
                vec![self.node(sim, |m| !sim.machines[m].told().is_empty()), self.pick()]
            }
            Kind::Connect => {
                vec![self.node(sim, |m| !sim.machines[m].unconnected().is_empty()), self.pick()]
            }
            Kind::Surge => {
                vec![self.node(sim, |m| !sim.machines[m].growing().is_empty()), self.any()]
            }
            Kind::Grow => {
                let node = self.node(sim, |m| !sim.machines[m].growing().is_empty());
                vec![node, self.any(), signed(self.shares.between(5, 60))]
            }
            Kind::Shrink => {
                let node = self.node(sim, |m| !sim.machines[m].shrinking().is_empty());
                vec![node, self.pick(), signed(self.shares.between(5, 100))]
            }
            Kind::Idle => {
                vec![self.node(sim, |m| !sim.machines[m].may_be_idle().is_empty()), self.any()]
            }
            Kind::FailRestore => {
                vec![self.node(sim, |m| !sim.machines[m].paused().is_empty()), self.any()]
            }
            Kind::Exit => {
                let node = self.node(sim, |m| !sim.machines[m].running().is_empty());
                let code = if self.rng.percent(60) { 0 } else { signed(self.rng.below(3)) };
                vec![node, self.any(), code]
            }
            Kind::KillShepherd => vec![self.node(sim, |m| has_shepherd(sim, m)), self.any()],
            Kind::StartAgent => vec![self.node(sim, |m| sim.can_start_agent(m))],
            Kind::KillAgent => vec![self.node(sim, |m| sim.machines[m].agent.is_some())],
            Kind::DoomAgent => {
                let node = self.node(sim, |m| sim.machines[m].agent.is_some());
                vec![node, signed(self.rng.below(4))]
            }
            Kind::Device => {
                let becomes = if self.rng.percent(50) { 0 } else { signed(self.rng.below(5)) };
                let node = self.node(sim, |m| !sim.machines[m].real.is_empty());
                vec![node, self.any(), becomes]
            }
            Kind::Snatch => {
                let node = self.node(sim, |m| can_check(&sim.machines[m]));
                vec![node, self.pick(), signed(self.rng.between(1, 4))]
            }
            Kind::Reboot => {
                let lost = if self.rng.percent(50) { 0 } else { signed(self.rng.number() >> 4) };
                vec![self.any(), lost, signed(self.rng.below(4))]
            }
            _ => return None,
        })
    }

    /// What happens to the server and its disk, and to time.
    fn of_server(&mut self, kind: Kind) -> Option<Vec<i64>> {
        Some(match kind {
            Kind::Disk => vec![self.yes(50)],
            Kind::KillServer => vec![signed(self.rng.below(4))],
            Kind::DoomServer => vec![signed(self.rng.below(6))],
            Kind::Jump => {
                let ms = signed(self.rng.below(7_200_000)) - 3_600_000;
                vec![self.any(), ms]
            }
            Kind::Pass => {
                let most = self.rng.one_of(&[10, 1000, 10_000, self.swarm.pass_most]);
                vec![signed(self.rng.between(1, most.min(self.swarm.pass_most)))]
            }
            Kind::Commit
            | Kind::Persist
            | Kind::Hear
            | Kind::FailCommit
            | Kind::StartServer
            | Kind::StopServer => Vec::new(),
            _ => return None,
        })
    }

    /// On how many nodes, and how many tasks on each, or none where they may be anywhere; nothing
    /// for one task.
    fn gang(&mut self) -> [i64; 2] {
        match self.gangs.percent(self.swarm.gangs) {
            true => [signed(self.gangs.between(1, 3)), signed(self.gangs.between(0, 2))],
            false => [0, 0],
        }
    }

    /// Draws the quota of a project: of the next new one, or of any.
    fn project(&mut self, at: Option<u64>) -> Vec<i64> {
        let most = self.swarm.cluster.nodes.iter().map(|node| node.devices).sum::<u64>();
        let rng = &mut self.projects;
        let halves = [0, 1, 2, 2, 3, 4, 4, 6, 6, most + 2, 2 * most + 2];
        let of = |rng: &mut Rng, percent, things: &[u64]| {
            if rng.percent(percent) { signed(rng.one_of(things)) } else { 0 }
        };
        let which = at.unwrap_or_else(|| rng.below(self.swarm.projects + 1));
        let parent = if rng.percent(35) { rng.below(self.swarm.projects) + 1 } else { 0 };
        vec![
            signed(which),
            signed(parent),
            of(rng, 85, &halves),
            of(rng, 25, &halves[1..]),
            of(rng, 30, &[1, 2, 3, 4]),
            if rng.percent(20) { signed(rng.below(5)) - 2 } else { 0 },
            of(rng, 15, &[1, 30, 600]),
            of(rng, 10, &[1, 30]),
            of(rng, 8, &[2, 10]),
            i64::from(rng.percent(20)),
            of(rng, 25, &[1, 2, 3, 4, 5]),
            of(rng, 70, &halves),
            of(rng, 30, &halves[1..]),
        ]
    }

    /// Its project, whether it may be taken back, its pool, and which nodes it may use.
    fn charged(&mut self) -> [i64; 4] {
        if self.swarm.projects == 0 {
            return [0, 0, 0, 0];
        }
        let rng = &mut self.projects;
        let project = rng.below(64);
        let preemptible = rng.percent(self.swarm.preemptible);
        let pool = if rng.percent(10) { rng.between(1, 3) } else { 0 };
        let only = if rng.percent(15) { rng.between(1, 64) } else { 0 };
        [signed(project), i64::from(preemptible), signed(pool), signed(only)]
    }

    fn submission(&mut self) -> Vec<i64> {
        let [nodes, each] = self.gang();
        let [project, preemptible, pool, only] = self.charged();
        let gpus = self.rng.below(self.swarm.gpus_most + 1);
        let share =
            if self.rng.percent(20) { self.rng.one_of(&[125, 250, 333, 500, 750]) } else { 0 };
        let [gpus, share, most] = self.sharing(gpus, share);
        let model = if self.rng.percent(15) { self.any() + 1 } else { 0 };
        let cpus = if self.rng.percent(30) { signed(self.rng.between(1, 8)) } else { 0 };
        let memory = if self.rng.percent(20) { signed(self.rng.between(1, 256)) } else { 0 };
        let limit = if self.rng.percent(25) { signed(self.rng.between(1, 120)) } else { 0 };
        let begin = if self.rng.percent(10) { signed(self.rng.between(1, 60)) } else { 0 };
        let deadline = if self.rng.percent(12) { signed(self.rng.between(60, 400)) } else { 0 };
        let retry = if self.rng.percent(25) { signed(self.rng.between(1, 3)) } else { 0 };
        let after = if self.rng.percent(20) { self.any() + 1 } else { 0 };
        // Often of the same length: their elements can wait for each other.
        let array =
            if self.rng.percent(self.swarm.arrays) { self.rng.one_of(&[1, 3, 3, 3, 7]) } else { 0 };
        let array = signed(array);
        vec![
            self.user(),
            signed(self.rng.between(1, self.swarm.jobs_most)),
            signed(gpus),
            signed(share),
            model,
            cpus,
            memory,
            limit,
            signed(self.rng.one_of(&[0, 1, 10, 30])),
            if self.rng.percent(20) { self.priority() } else { 0 },
            after,
            signed(self.rng.below(4)),
            begin,
            deadline,
            retry,
            self.yes(7),
            self.yes(60),
            self.deaf(),
            array,
            if array > 0 { signed(self.rng.below(4)) } else { 0 },
            if array > 0 { signed(self.rng.below(3)) } else { 0 },
            nodes,
            each,
            project,
            preemptible,
            pool,
            only,
            signed(most),
            i64::from(self.swarm.pauses > 0 && self.pauses.percent(self.swarm.pauses)),
            if self.swarm.cluster.leases { signed(self.leases.one_of(&[0, 1, 1, 2])) } else { 0 },
        ]
    }

    /// GPUs, the requested part of each, and the most that the job may use of each.
    fn sharing(&mut self, gpus: u64, share: u64) -> [u64; 3] {
        let rng = &mut self.shares;
        if !rng.percent(self.swarm.shares) {
            return [gpus, share, 0];
        }
        let gpus = if rng.percent(95) { 1 } else { gpus };
        if rng.percent(30) {
            return [gpus, 0, 0];
        }
        [gpus, rng.one_of(&[125, 250, 333, 500, 500]), rng.one_of(&[0, 800, 1000, 1000, 1000])]
    }

    fn user(&mut self) -> i64 {
        signed(self.rng.below(self.swarm.users))
    }

    fn priority(&mut self) -> i64 {
        signed(self.rng.below(24)) - 10
    }

    /// The answer is not heard.
    fn deaf(&mut self) -> i64 {
        self.yes(8)
    }

    fn any(&mut self) -> i64 {
        signed(self.rng.below(64))
    }

    fn yes(&mut self, percent: u64) -> i64 {
        i64::from(self.rng.percent(percent))
    }
}

fn has_shepherd(sim: &Sim, m: usize) -> bool {
    let machine = &sim.machines[m];
    let mut claims = machine.claims.values();
    !machine.forked.is_empty() || claims.any(|it| it.has_shepherd && it.ended.is_none())
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).expect("every number that is drawn is small")
}

fn has_world(sim: &Sim, test: impl Fn(&gpool_world::World) -> bool) -> bool {
    sim.server.as_ref().is_some_and(|server| test(server.control.world()))
}
