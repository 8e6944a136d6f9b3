//! The agent's loop: inputs go into `Converge`, and the loop carries out the actions that come out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use gpool_link::{AgentInbox, ServerLink};
use gpool_model::ArrayValues;
use gpool_model::agent::{OutputReport, Report, Stamp, TaskEnd, TaskReport, Terms};
use gpool_model::id::{DeviceUuid, Generation, Incarnation, TaskId};
use gpool_model::job::BlobId;
use gpool_model::unit::{Bytes, Millis};
use gpool_node::converge::{self, Action, Converge, Halting, Moves};
use gpool_node::lease::Lease;
use gpool_node::presence::MemoryPresence;
use gpool_protocol::ToServer;
use gpool_sys::cgroup::Site;
use gpool_sys::proc;

use crate::config::AgentConfig;
use crate::devices::Devices;
use crate::done::Done;
use crate::facts::now;
use crate::folders::Folders;
use crate::images::Containers;
use crate::input::{self, ThreadInput};
use crate::isolation::Isolation;
use crate::pending_launch::PendingLaunch;
use crate::recent::RecentValues;
use crate::results::ResultSender;
use crate::shares::Shares;
use crate::shepherds::{About, Introduced, Shepherds};
use crate::task_state::{Streams, ToResume, stopped};
use crate::wake::{Poller, Token, Waker};
use gpool_shepherd::layout::{Layout, claim_name};
use gpool_shepherd::message::{FromShepherd, ToShepherd};
use gpool_shepherd::record::{Claim, Claimant, rename_new};

pub(crate) struct Parts {
    pub config: AgentConfig,
    pub layout: Layout,
    pub site: Site,
    /// The lock on the state directory.
    pub _held: File,
    pub devices: Devices,
    pub shares: Shares,
    pub isolation: Isolation,
    pub recent: RecentValues,
    /// For threads that send inputs to this one.
    pub sender: input::InputSender,
    pub server: Arc<dyn ServerLink>,
    pub containers: Containers,
    pub folders: Folders,
    /// Takes messages of the server for as long as the agent runs.
    pub _inbox: Arc<dyn AgentInbox>,
    /// This run of the agent.
    pub incarnation: Incarnation,
}

pub(crate) struct Runner {
    pub(crate) parts: Parts,
    inputs: Receiver<ThreadInput>,
    waker: Waker,
    pub(crate) shepherds: Shepherds,
    converge: Converge,
    done: Done,
    results: ResultSender,
    /// Tasks that are not launched yet.
    pub(crate) pending_launches: BTreeMap<TaskId, PendingLaunch>,
    /// Tasks that lost their shepherd and had their containers removed by this agent.
    pub(crate) removed_containers: BTreeSet<TaskId>,
    /// Tasks that are lost, while their devices are being checked.
    pub(crate) lost: BTreeMap<TaskId, TaskReport>,
    pub(crate) memory: BTreeMap<DeviceUuid, Bytes>,
    /// The stamp of the last report that carried one.
    stamp: Stamp,
    inventory: Option<Report>,
    /// Reports that wait for the inventory, which must be sent first; `None` once it was sent.
    held_back: Option<Vec<Report>>,
    /// Streams that were requested.
    pub(crate) streams: Streams,
    /// The values of the last started array: the next element usually belongs to the same one.
    pub(crate) values: Option<(BlobId, Arc<ArrayValues>)>,
    /// When tasks were ordered to leave their devices, to move to others.
    pub(crate) detached_at: BTreeMap<TaskId, Instant>,
    /// For each task whose limits on new devices the driver is asked for: the order to resume it
    /// that waits for them. There is none if it was paused since.
    pub(crate) resuming: BTreeMap<TaskId, Option<ToResume>>,
    /// Why tasks could not move.
    pub(crate) not_moved: BTreeMap<TaskId, String>,
    /// How tasks move between devices, by the last inventory.
    pub(crate) how_to_move: Moves,
    /// The lease, if the server is on another machine.
    pub(crate) lease: Option<Lease>,
    /// Inputs that are not processed yet.
    pub(crate) pending_inputs: VecDeque<converge::Input>,
}

impl Runner {
    pub(crate) fn new(
        parts: Parts,
        launching: File,
        inputs: Receiver<ThreadInput>,
        waker: Waker,
    ) -> io::Result<Self> {
        let shepherds = Shepherds::new(Poller::new(&waker)?, &parts.layout, launching)?;
        let (done, over) = Done::open(&parts.layout)?;
        let results = ResultSender::start(&parts.folders, parts.config.results_max, &over)?;
        let stamp = Stamp { incarnation: parts.incarnation.clone(), sequence: 0 };
        let mut runner = Self {
            parts,
            inputs,
            waker,
            shepherds,
            converge: Converge::new(over),
            done,
            results,
            pending_launches: BTreeMap::new(),
            removed_containers: BTreeSet::new(),
            lost: BTreeMap::new(),
            memory: BTreeMap::new(),
            stamp,
            inventory: None,
            held_back: Some(Vec::new()),
            streams: Streams::default(),
            values: None,
            detached_at: BTreeMap::new(),
            resuming: BTreeMap::new(),
            not_moved: BTreeMap::new(),
            how_to_move: Moves::No,
            lease: None,
            pending_inputs: VecDeque::new(),
        };
        runner.adopt_all()?;
        Ok(runner)
    }

    /// Runs until [`ThreadInput::Stop`].
    pub(crate) fn run(mut self) {
        self.settle();
        loop {
            for token in self.shepherds.wait() {
                if token == Poller::WAKER {
                    self.waker.clear();
                } else {
                    self.on_event(token);
                }
                self.settle();
            }
            while let Ok(input) = self.inputs.try_recv() {
                if !self.take(input) {
                    return;
                }
                self.settle();
            }
        }
    }

    /// Processes an input of another thread; returns `false` after the last.
    fn take(&mut self, input: ThreadInput) -> bool {
        match input {
            ThreadInput::Order(order, beat) => self.obey(*order, beat),
            ThreadInput::Lease(terms) => self.lease = Some(Lease::new(terms)),
            ThreadInput::Renewed(beat) => self.renewed(beat),
            ThreadInput::Inventory(report) => {
                if let Report::Inventory { devices, facts, .. } = &*report {
                    let memory = devices.iter().map(|device| (device.uuid.clone(), device.memory));
                    self.memory = memory.collect();
                    self.parts.isolation.learn(devices);
                    let (devices, moves) =
                        (devices.clone(), self.parts.devices.moves(&facts.remap));
                    self.how_to_move = moves;
                    self.pending_inputs.push_back(converge::Input::Devices { devices, moves });
                }
                fail::fail_point!("agent-inventory-before");
                self.inventory = Some((*report).clone());
                self.say(*report);
                fail::fail_point!("agent-inventory-after");
                for report in self.held_back.take().into_iter().flatten() {
                    self.say(report);
                }
            }
            ThreadInput::LeftoversEnded(task) => self.adopt(task, Generation::default()),
            ThreadInput::Blob { task, id, content } => self.take_blob(task, id, content),
            ThreadInput::Secret { task, name, value } => self.take_secret(task, name, value),
            ThreadInput::Image { task, lack } => self.take_image(task, lack),
            ThreadInput::Folder { task, built } => self.take_folder(task, built),
            ThreadInput::Checked { task, unusable, refused } => {
                self.take_check(task, unusable, refused);
            }
            ThreadInput::Limited(moved, refused) => self.limited(*moved, refused),
            ThreadInput::Vacated { task, generation, user } => {
                self.shepherds.say_now(task, &ToShepherd::Vacated { generation, user });
            }
            ThreadInput::Ended { task, end } => {
                self.pending_inputs.push_back(converge::Input::Ended { task, end: *end });
            }
            ThreadInput::Telemetry(telemetry) => self.push(telemetry),
            ThreadInput::Open(asked) => self.open(*asked),
            ThreadInput::Divide(asked) => self.divide(*asked),
            ThreadInput::LoanAction(lent) => self.lend(lent),
            ThreadInput::Stop => {
                fail::fail_point!("agent-stop");
                // Running jobs keep their own groups, and so the folder above them.
                self.parts.site.close();
                return false;
            }
        }
        true
    }

    fn on_event(&mut self, token: Token) {
        match self.shepherds.about(token) {
            Some(About::Listener) => self.shepherds.accept(),
            Some(About::Stranger) => {
                let caller = match self.shepherds.introduce(token) {
                    None => return,
                    Some(Introduced::Shepherd(caller)) => caller,
                    Some(Introduced::Line { pid, task, line, opened }) => {
                        return self.opened(pid, task, line, opened);
                    }
                };
                let (task, is_off) = (caller.task, caller.is_off);
                // A shepherd of an earlier agent that had not claimed its task when this agent
                // started.
                if self.shepherds.get_mut(task).is_none() {
                    self.adopt(task, Generation::default());
                }
                if self.shepherds.connect(caller) {
                    self.settled(task, is_off);
                    self.hear(task);
                }
            }
            Some(About::Line(task)) => self.hear(task),
            Some(About::Process(task)) => {
                self.shepherds.forget(token);
                self.on_shepherd_ended(task);
            }
            Some(About::Leaving) => self.shepherds.reap(token),
            None => {}
        }
    }

    fn hear(&mut self, task: TaskId) {
        for message in self.shepherds.read(task) {
            self.on_message(task, message);
        }
    }

    fn on_message(&mut self, task: TaskId, message: FromShepherd) {
        match message {
            FromShepherd::Hello { .. } | FromShepherd::Line { .. } => {}
            FromShepherd::AlreadyClaimed => {
                if let Some(pid) = self.shepherds.dismiss(task) {
                    self.parts.devices.released(pid);
                }
                self.adopt(task, Generation::default());
            }
            FromShepherd::Started { pid, at: started_at } => {
                self.pending_inputs.push_back(converge::Input::Started { task, pid, started_at });
            }
            FromShepherd::Changed { generation } => {
                self.pending_inputs.push_back(converge::Input::Changed { task, generation });
            }
            FromShepherd::Paused { generation } => {
                self.parts.shares.at(task, MemoryPresence::Paused);
                self.parts.shares.settled(task);
                self.halted(task, generation, Halting::Paused);
            }
            FromShepherd::Released { generation } => {
                self.parts.devices.is_vacated(task, generation);
            }
            FromShepherd::Resumed { generation } => {
                self.parts.shares.at(task, MemoryPresence::Here);
                self.halted(task, generation, Halting::Resumed);
            }
            FromShepherd::NotPaused { generation, why, is_between } => {
                if !is_between {
                    self.parts.shares.at(task, MemoryPresence::Here);
                }
                self.halted(task, generation, Halting::NotPaused { why });
            }
            FromShepherd::NotMoved { generation, why, devices } => {
                self.parts.shares.at(task, MemoryPresence::Paused);
                self.note_place(task, &devices, &devices);
                self.halted(task, generation, Halting::NotMoved { why, devices });
            }
            FromShepherd::OutputCut { cut, is_stopped } => {
                self.tell(Report::Output(OutputReport { task, cut, is_stopped }));
            }
            FromShepherd::Waits { why } => self.parts.shares.waits(task, why),
            FromShepherd::Vacated => self.parts.shares.at(task, MemoryPresence::Away),
            FromShepherd::NotVacated { why } => self.parts.shares.stays(task, why),
            FromShepherd::Returned => self.parts.shares.at(task, MemoryPresence::Here),
            FromShepherd::Detached { is_done, why } => self.detached(task, is_done, why),
            FromShepherd::Attached { devices } => {
                self.parts.devices.moved(task, &devices, &[]);
                self.pending_inputs.push_back(converge::Input::Attached { task });
            }
            FromShepherd::NotAttached { left, why } => self.not_attached(task, left, why),
            FromShepherd::Metrics { values } => {
                let now = now();
                self.parts.recent.reported(task, now, values);
            }
            FromShepherd::Busy { is_busy } => self.parts.shares.says_busy(task, is_busy),
            FromShepherd::Ended { mut end } => {
                fail::fail_point!("agent-end-heard");
                end.usage.gpu = self.parts.devices.measured(task);
                if let Some(shepherd) = self.shepherds.get_mut(task) {
                    shepherd.ended = true;
                }
                if let Some(end) = self.parts.devices.last_look(task, end) {
                    self.pending_inputs.push_back(converge::Input::Ended { task, end });
                }
            }
        }
    }

    pub(crate) fn halted(&mut self, task: TaskId, generation: Generation, halting: Halting) {
        self.pending_inputs.push_back(converge::Input::Halted { task, generation, halting });
    }

    fn on_shepherd_ended(&mut self, task: TaskId) {
        let Some((shepherd, messages)) = self.shepherds.ended(task) else { return };
        self.refuse_streams(task);
        self.detached_at.remove(&task);
        self.resuming.remove(&task);
        self.not_moved.remove(&task);
        let mut told = shepherd.ended;
        for message in messages {
            told |= matches!(message, FromShepherd::Ended { .. } | FromShepherd::AlreadyClaimed);
            self.on_message(task, message);
        }
        // After its messages: its end carries what was measured.
        self.parts.devices.released(shepherd.pid);
        self.parts.shares.end(task);
        self.remove_secrets(task);
        if told {
            // The shepherd may have been killed before it removed its control group.
            self.parts.site.existing(&claim_name(task)).remove();
        } else {
            self.adopt(task, Generation::default());
        }
    }

    /// Processes all inputs, and all that follow from them.
    fn settle(&mut self) {
        while let Some(input) = self.pending_inputs.pop_front() {
            for action in self.converge.step(input) {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Launch { order, seats } => {
                fail::fail_point!("agent-launch-before");
                self.launch(order, seats);
            }
            Action::Prevent { task, generation } => self.prevent(task, generation, stopped()),
            Action::Stop { task, grace, signal } => match self.pending_launches.remove(&task) {
                Some(it) => self.prevent(task, it.order.generation, stopped()),
                None => {
                    fail::fail_point!("agent-end-before");
                    self.shepherds.say(task, &ToShepherd::Stop { grace, signal });
                    self.shepherds.wake(task);
                    fail::fail_point!("agent-end-after");
                }
            },
            Action::Change { task, generation, terms } => self.change(task, generation, terms),
            Action::Pause { task, generation, runs_on } => {
                self.resuming.get_mut(&task).into_iter().for_each(|waits| *waits = None);
                self.shepherds.say(task, &ToShepherd::Pause { generation, runs_on });
            }
            Action::Resume { task, generation, devices, booked } => {
                self.resume(task, ToResume { generation, devices, booked });
            }
            Action::Stay { task } => self.parts.shares.stay(task),
            Action::Detach { task, reason } => self.detach(task, reason),
            Action::Attach { task, devices } => self.attach(task, devices),
            Action::Signal { task, signal, to } => {
                fail::fail_point!("agent-signal-before");
                self.shepherds.say_now(task, &ToShepherd::Signal { signal, to });
                fail::fail_point!("agent-signal-after");
            }
            Action::Report(report) => self.tell(report),
            Action::Forget(task) => self.forget(task),
        }
    }

    /// Sends a report, after the inventory.
    pub(crate) fn tell(&mut self, report: Report) {
        match &mut self.held_back {
            Some(held_back) => held_back.push(report),
            None => {
                fail::fail_point!("agent-report-before");
                self.say(report);
                fail::fail_point!("agent-report-after");
            }
        }
    }

    /// Sends a report to the server. Before an answer to a query it repeats the inventory, since an
    /// earlier one may have been lost.
    fn say(&mut self, mut report: Report) {
        match &mut report {
            Report::Inventory { stamp, .. } => *stamp = self.next_stamp(),
            Report::Tasks { stamp, .. } => {
                if let Some(inventory) = self.inventory.clone() {
                    self.say(inventory);
                }
                *stamp = self.next_stamp();
            }
            Report::Move(report) => {
                let since = self.detached_at.remove(&report.task);
                report.took = since
                    .and_then(|it| u64::try_from(it.elapsed().as_millis()).ok())
                    .map(Millis::new);
                report.why = self.not_moved.remove(&report.task);
            }
            Report::Task(_) | Report::Loan(_) | Report::Output(_) => {}
        }
        self.parts.server.send(&ToServer::Report(Box::new(report)));
    }

    fn next_stamp(&mut self) -> Stamp {
        self.stamp.sequence += 1;
        self.stamp.clone()
    }

    /// The new size of its shares applies before it is noted in the claim: after a crash between
    /// the two, the server repeats the order.
    fn change(&mut self, task: TaskId, generation: Generation, terms: Terms) {
        if let Some(PendingLaunch { order, .. }) = self.pending_launches.get_mut(&task) {
            // Nothing was launched yet, so the launch uses the new terms.
            order.generation = generation;
            std::sync::Arc::make_mut(&mut order.spec).time_limit = terms.limit;
            terms.resize(&mut order.allocation.slots);
            return self.pending_inputs.push_back(converge::Input::Changed { task, generation });
        }
        fail::fail_point!("agent-change-before");
        self.parts.shares.resize(task, terms.parts.clone());
        self.parts.devices.resize(task, &terms);
        self.shepherds.say(task, &ToShepherd::Change { generation, terms });
        fail::fail_point!("agent-change-after");
    }

    /// Claims a task for the agent itself, so that no shepherd of an earlier agent can claim it.
    pub(crate) fn prevent(&mut self, task: TaskId, generation: Generation, end: TaskEnd) {
        fail::fail_point!("agent-prevent-before");
        let claimant = Claimant::this_process(task, generation, 0, &proc::boot_id());
        match Claim::take_ended(&self.parts.layout, claimant, &end) {
            Ok(false) => return self.adopt(task, generation),
            Ok(true) => fail::fail_point!("agent-prevent-claimed"),
            // There is no room for a claim, so no other process can make one either.
            Err(_) => {}
        }
        self.parts.folders.discard(task);
        self.pending_inputs.push_back(converge::Input::Ended { task, end });
    }

    fn forget(&mut self, task: TaskId) {
        fail::fail_point!("agent-forget-before");
        // The order matters: a claim that is left is removed at the next start, but a task in
        // neither place could be launched again.
        if self.done.note(task).is_ok() {
            fail::fail_point!("agent-forget-noted");
            let (claim, record) = (self.parts.layout.claim(task), self.parts.layout.record(task));
            // Moved, not removed: a late shepherd must see it, and some file systems create files
            // slowly right after others were removed. If moving fails, the next agent tries again.
            let put_away = || match rename_new(&claim, &record) {
                // It belongs to a late shepherd that was killed before it gave the claim up.
                Ok(false) => std::fs::remove_file(&claim),
                moved => moved.map(drop),
            };
            if put_away().is_err()
                && let Some(folder) = record.parent()
            {
                // A task that was never launched has no folder yet.
                let _ = DirBuilder::new().recursive(true).mode(0o711).create(folder);
                let _ = put_away();
            }
        }
        fail::fail_point!("agent-forget-moved");
        self.results.ended(task);
        self.shepherds.say(task, &ToShepherd::Acknowledge);
        fail::fail_point!("agent-forget-told");
    }
}
