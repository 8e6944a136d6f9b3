//! The driver of a service: it measures the load, decides how many replicas there are, and submits,
//! drains and cancels their jobs. gpool's records say which replicas exist, so a driver that starts
//! again goes on where the last one ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpool_client::{Client, Error, JobsQuery};
use gpool_model::job::JobState;
use gpool_wire::Job;

use crate::journal::Journal;
use crate::member::Member;
use crate::plan::{PlannedReplica, Stage, Update, divide, pause_ms, steps};
use crate::proxy::replica::Replica;
use crate::proxy::table::{Table, Traffic};
use crate::replicas::{self, ReplicaJob};
use crate::scale::{Decision, Present, Scaler, count};
use crate::service::{Folder, ReplicaStatus, Service};

/// How long a replica that was ready may not answer its probe before it is replaced.
const UNREADY_MS: u64 = 60_000;
/// How long a listing of jobs is used while no event says that it is out of date.
const LIST_EVERY_MS: u64 = 1000;

/// The jobs of the service at one moment.
#[derive(Clone)]
pub struct Listing {
    /// Its replicas that have not ended.
    pub replicas: Vec<ReplicaJob>,
    /// Whether the gateway's own job goes on.
    pub is_running: bool,
}

/// The driver.
pub struct Driver {
    client: Client,
    folder: Folder,
    service: Service,
    table: Arc<Table>,
    scaler: Option<Scaler>,
    members: BTreeMap<u64, Member>,
    /// The job of this gateway.
    own_job: String,
    /// Its attempt, a part of idempotency keys: an earlier attempt may have used the same index.
    attempt: String,
    /// Its node.
    here: String,
    next_index: u64,
    /// Failed starts in a row, and the time of the last one, by revision.
    failures: BTreeMap<u32, (u32, u64)>,
    addresses: BTreeMap<String, String>,
    decided: Option<Decision>,
    traffic: Option<Traffic>,
    listed: Option<(u64, Listing)>,
    /// Its reports.
    pub journal: Journal,
}

impl Driver {
    /// A driver that knows no replica yet.
    #[must_use]
    pub fn new(client: Client, folder: Folder, service: Service, table: Arc<Table>) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let own_job = variable("GPOOL_JOB_ID");
        Self {
            client,
            folder,
            service,
            table,
            scaler: None,
            members: BTreeMap::new(),
            journal: Journal::new(own_job.clone()),
            own_job,
            attempt: variable("GPOOL_ATTEMPT"),
            here: variable("GPOOL_NODE"),
            next_index: 1,
            failures: BTreeMap::new(),
            addresses: BTreeMap::new(),
            decided: None,
            traffic: None,
            listed: None,
        }
    }

    /// The jobs that it watches.
    #[must_use]
    pub fn jobs(&self) -> Vec<String> {
        let replicas = self.members.values().map(|it| it.job.job.id.clone());
        replicas.chain([self.own_job.clone()]).collect()
    }

    /// Reads the service again after an update.
    pub fn reload(&mut self) {
        let Ok(service) = self.folder.service() else { return };
        if service == self.service {
            return;
        }
        if service.current.number != self.service.current.number {
            let (from, to) = (self.service.current.number, service.current.number);
            self.journal.add(format!("update from revision {from} to {to}"));
            self.failures.clear();
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.set_rules(service.scale);
        }
        self.service = service;
        self.table.set_rules(self.service.requests, self.canary());
        for member in self.members.values() {
            if let Some(live) = &member.live {
                live.is_new.store(self.is_new(member.job.revision), Ordering::Relaxed);
            }
        }
    }

    /// The canary's percentage, while there is an earlier revision to compare with.
    fn canary(&self) -> Option<u32> {
        self.service.canary.filter(|_| self.service.previous.is_some())
    }

    fn is_new(&self, revision: u32) -> bool {
        revision == self.service.current.number
    }

    /// Reads the jobs of the service.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn list(&self) -> Result<Listing, Error> {
        let query = JobsQuery {
            group: Some(self.service.name.clone()),
            limit: Some(1000),
            ..JobsQuery::default()
        };
        let jobs: Vec<Job> = self.client.every_job(query).collect::<Result<_, _>>()?;
        let own = jobs.iter().find(|job| job.id == self.own_job);
        let is_running = own.is_some_and(|job| job.state == JobState::Running);
        // Groups of other users can have the same name.
        let user = own.map(|job| job.user.clone());
        let jobs = jobs.into_iter().filter(|job| user.as_ref() == Some(&job.user));
        Ok(Listing { replicas: jobs.filter_map(ReplicaJob::of).collect(), is_running })
    }

    /// One round: measures, compares the jobs with the plan, and acts. `is_changed` says that jobs
    /// have changed. Returns whether the gateway's own job goes on.
    ///
    /// # Errors
    /// The server does not answer or refuses a replica.
    pub fn round(&mut self, is_changed: bool) -> Result<bool, Error> {
        let now_ms = self.table.now_ms();
        let is_recent = |at: u64| !is_changed && now_ms < at + LIST_EVERY_MS;
        let listing = match self.listed.take().filter(|(at, _)| is_recent(*at)) {
            Some(listed) => listed,
            None => (now_ms, self.list()?),
        };
        self.listed = Some(listing.clone());
        let (_, listing) = listing;
        let is_running = listing.is_running;
        self.take(listing.replicas, now_ms);
        if !is_running {
            return Ok(false);
        }
        let n_living = self.n_living();
        let rules = self.service.scale;
        let traffic = self.table.sample();
        self.traffic = Some(traffic);
        let scaler = self.scaler.get_or_insert_with(|| Scaler::new(rules, 0, n_living));
        scaler.record(now_ms, traffic.sample);
        let ready = self.members.values().filter(|it| it.stage == Stage::Ready).count();
        let present = Present {
            n_ready: u32::try_from(ready).unwrap_or(u32::MAX),
            n_living,
            n_held: traffic.n_held,
            oldest_held_ms: u64::try_from(traffic.oldest_held.as_millis()).unwrap_or(u64::MAX),
        };
        let decision = scaler.decide(now_ms, present);
        if self.decided.as_ref().is_none_or(|it| it.n != decision.n) {
            let text = format!("{}: {}", count(decision.n), decision.reason);
            self.journal.add(text);
        }
        let (n, reason) = (decision.n, decision.reason.clone());
        self.decided = Some(decision);
        self.replace_unready(now_ms);
        self.act(n, &reason, now_ms)?;
        self.end_drained(now_ms);
        Ok(true)
    }

    fn n_living(&self) -> u32 {
        let n = self.members.values().filter(|it| it.stage.is_living()).count();
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// Brings the replicas up to date with their jobs.
    fn take(&mut self, listed: Vec<ReplicaJob>, now_ms: u64) {
        let mut before = std::mem::take(&mut self.members);
        for job in listed {
            let Some(by_job) = job.stage() else { continue };
            self.next_index = self.next_index.max(job.index + 1);
            let index = job.index;
            let mut member = match before.remove(&index) {
                Some(member) => Member { job, ..member },
                None => Member {
                    job,
                    stage: by_job,
                    live: None,
                    since_ms: now_ms,
                    leaves: None,
                    is_ended: false,
                },
            };
            self.reach(&mut member);
            let stage = member.stage_by(by_job);
            if stage == Stage::Stopping && member.leaves.is_none() {
                self.journal.add(format!("replica {index} leaves: gpool stops its job"));
                member.leaves = Some((now_ms, "gpool stops its job".to_owned()));
            }
            if member.stage != stage {
                member.stage = stage;
                member.since_ms = now_ms;
            }
            if stage == Stage::Ready {
                self.failures.remove(&member.job.revision);
            }
            self.members.insert(index, member);
        }
        for (index, gone) in before {
            self.ended(index, &gone, now_ms);
        }
    }

    /// Adds a running replica to the balancer, and removes one that runs no more.
    fn reach(&mut self, member: &mut Member) {
        let job = &member.job;
        let is_running = job.job.state == JobState::Running;
        let is_stopping = job.job.state == JobState::Stopping;
        if is_running && member.live.is_none() {
            let port = replicas::port(self.service.replicas.port_seed, job.index);
            let node = job.node().map(str::to_owned);
            let is_new = self.is_new(job.revision);
            let revision = self.service.revision(is_new);
            let is_open = revision.is_some_and(|it| replicas::is_open_to_network(&it.job));
            let address = node.as_deref().filter(|node| *node != self.here);
            let address = address.and_then(|node| self.address(node));
            let endpoint =
                replicas::endpoint(port, node.as_deref(), &self.here, address.as_deref(), is_open);
            let job = &member.job;
            let live = Replica::new(job.index, job.job.id.clone(), port, endpoint, is_new);
            live.is_leaving.store(member.leaves.is_some(), Ordering::Relaxed);
            self.table.add(live.clone());
            member.live = Some(live);
        }
        if let Some(live) = &member.live {
            if is_stopping {
                // gpool preempts or ends it: requests in flight may finish within its grace period.
                live.is_leaving.store(true, Ordering::Relaxed);
            } else if !is_running {
                self.table.remove(live.index);
                member.live = None;
                if member.stage == Stage::Stopping {
                    // A preempted replica that waits again is an ordinary one.
                    (member.leaves, member.is_ended) = (None, false);
                }
            }
        }
    }

    /// The address of another node.
    fn address(&mut self, node: &str) -> Option<String> {
        if !self.addresses.contains_key(node) {
            let nodes = self.client.nodes().ok()?;
            let known = nodes.items.into_iter().filter_map(|it| Some((it.name, it.address?)));
            self.addresses.extend(known);
        }
        self.addresses.get(node).cloned()
    }

    /// A replica has ended.
    fn ended(&mut self, index: u64, gone: &Member, now_ms: u64) {
        if let Some(live) = &gone.live {
            live.is_leaving.store(true, Ordering::Relaxed);
            self.table.remove(index);
        }
        if gone.leaves.is_some() {
            return;
        }
        let revision = gone.job.revision;
        if !gone.was_ready() {
            let failures = self.failures.entry(revision).or_default();
            *failures = (failures.0 + 1, now_ms);
        }
        let id = &gone.job.job.id;
        let run = self.client.job(id).map(|job| job.run).unwrap_or_default();
        let code = run.exit_code.map(|code| format!("exit code {code}"));
        let cause = run.cause_text.or(code).map(|it| format!(": {it}")).unwrap_or_default();
        let when = if gone.was_ready() { "" } else { " before it was ready" };
        self.journal.add(format!("replica {index} (job {id}) ended{when}{cause}"));
    }

    /// Drains replicas that never became ready, or do not answer any more.
    fn replace_unready(&mut self, now_ms: u64) {
        let limit = self.service.replicas.ready_timeout_ms;
        let late: Vec<(u64, String)> = self
            .members
            .iter()
            .filter_map(|(index, it)| {
                let for_ms = now_ms - it.since_ms;
                match it.stage {
                    // Its job may still start: gpool bounds that.
                    Stage::Starting if it.live.is_some() && for_ms > limit => {
                        Some((*index, format!("it was not ready within {} s", limit / 1000)))
                    }
                    Stage::Unready if for_ms > UNREADY_MS => {
                        Some((*index, format!("it has not answered for {} s", for_ms / 1000)))
                    }
                    _ => None,
                }
            })
            .collect();
        for (index, why) in late {
            if let Some(member) = self.members.get(&index).filter(|it| !it.was_ready()) {
                let failures = self.failures.entry(member.job.revision).or_default();
                *failures = (failures.0 + 1, now_ms);
            }
            self.drain(index, why, now_ms);
        }
    }

    /// Starts and drains replicas by the plan.
    fn act(&mut self, n: u32, reason: &str, now_ms: u64) -> Result<(), Error> {
        let planned: Vec<PlannedReplica> =
            self.members.values().map(|it| self.planned(it)).collect();
        let canary = self.canary();
        let steps = steps(divide(n, canary, &planned), &planned);
        for index in steps.drain {
            let is_old = self.members.get(&index).is_some_and(|it| !self.is_new(it.job.revision));
            let why = match is_old {
                true => format!("revision {} takes its place", self.service.current.number),
                false => format!("{} needed: {reason}", count(n)),
            };
            self.drain(index, why, now_ms);
        }
        for (is_new, n_missing) in [(true, steps.start_new), (false, steps.start_old)] {
            for _ in 0..n_missing {
                if !self.start(is_new, reason, now_ms)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn planned(&self, member: &Member) -> PlannedReplica {
        PlannedReplica {
            index: member.job.index,
            stage: member.stage,
            is_new: self.is_new(member.job.revision),
            n_in_flight: member.n_in_flight(),
        }
    }

    /// Submits a replica, unless its revision has just failed. Returns whether it did.
    fn start(&mut self, is_new: bool, reason: &str, now_ms: u64) -> Result<bool, Error> {
        let Some(revision) = self.service.revision(is_new) else { return Ok(false) };
        if let Some((n, at)) = self.failures.get(&revision.number)
            && now_ms < at + pause_ms(*n)
        {
            return Ok(false);
        }
        let index = self.next_index;
        let request = replicas::request(&self.service, revision, index, reason);
        let key = format!("serve/{}/{}/{}/{index}", self.service.name, self.own_job, self.attempt);
        let number = revision.number;
        let job = self.client.submit(&request, Some(&key))?;
        self.next_index += 1;
        // A `cancel` of the whole group may have come between the listing and the submission.
        let listing = self.list()?;
        if !listing.is_running {
            let _ = self.client.cancel(&[job.id]);
            return Ok(false);
        }
        self.journal.add(format!("replica {index} (job {}), revision {number}: start", job.id));
        self.listed = Some((now_ms, listing.clone()));
        self.take(listing.replicas, now_ms);
        Ok(true)
    }

    fn drain(&mut self, index: u64, why: String, now_ms: u64) {
        let Some(member) = self.members.get_mut(&index) else { return };
        if let Some(live) = &member.live {
            live.is_leaving.store(true, Ordering::Relaxed);
        }
        self.journal.add(format!("replica {index} leaves: {why}"));
        member.leaves = Some((now_ms, why));
        member.stage = Stage::Draining;
    }

    /// Cancels the jobs of drained replicas.
    fn end_drained(&mut self, now_ms: u64) {
        let most = self.service.replicas.drain_ms;
        for member in self.members.values_mut() {
            let Some((since, _)) = &member.leaves else { continue };
            let is_drained = member.n_in_flight() == 0 || now_ms - since > most;
            if !is_drained || member.is_ended {
                continue;
            }
            // A preempted one too: its GPUs are wanted, and another replica already waits.
            let id = std::slice::from_ref(&member.job.job.id);
            member.is_ended = self.client.cancel(id).is_ok();
        }
    }

    /// Writes the report.
    pub fn report(&mut self, url: &str) {
        let (figures, sums) = self.table.figures();
        let replicas = self.members.iter().map(|(index, it)| ReplicaStatus {
            index: *index,
            job: it.job.job.id.clone(),
            revision: it.job.revision,
            stage: it.stage,
            node: it.job.node().map(str::to_owned),
            n_in_flight: it.n_in_flight(),
            why: it.why(),
        });
        let replicas: Vec<ReplicaStatus> = replicas.collect();
        let update = self.update();
        let decided = self.decided.as_ref();
        self.journal.report(crate::journal::Report {
            folder: &self.folder,
            url,
            n_wanted: decided.map_or(0, |it| it.n),
            reason: decided.map_or_else(String::new, |it| it.reason.clone()),
            update,
            n_in_flight: self.traffic.map_or(0, |it| it.n_in_flight),
            n_held: self.traffic.map_or(0, |it| it.n_held),
            figures,
            sums,
            replicas,
        });
    }

    /// The state of an update.
    fn update(&self) -> Option<String> {
        let current = self.service.current.number;
        let n_old = self
            .members
            .values()
            .filter(|it| !self.is_new(it.job.revision) && it.stage.is_living());
        let update = Update {
            service: &self.service.name,
            revision: current,
            n_old: n_old.count(),
            canary: self.canary(),
            n_failed: self.failures.get(&current).map_or(0, |(n, _)| *n),
        };
        update.text()
    }
}
