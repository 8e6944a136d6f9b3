//! The agent of one node, with the real brain and no processes: what is launched is a row in a
//! table that survives the agent, as processes do.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{Order, Report, TaskEnd, TaskIs, TaskOrder, TaskReport};
use gpool_model::job::{ExitStatus, Usage};
use gpool_model::node::NodeFacts;
use gpool_model::{DeviceUuid, Generation, Node, TaskId, Timestamp};
use gpool_node::converge::{Action, Converge, Input};

/// One task as it really is.
#[derive(Debug, Clone)]
struct Real {
    generation: Generation,
    devices: Vec<DeviceUuid>,
    is_told_to_end: bool,
    state: RealState,
}

#[derive(Debug, Clone)]
enum RealState {
    Launched,
    Running { started_at: Timestamp },
    Ended(TaskEnd),
}

pub struct Agent {
    /// What it finds; its name, capacity and devices are reported.
    pub node: Node,
    brain: Converge,
    tasks: BTreeMap<TaskId, Real>,
    forgotten: Vec<TaskId>,
    /// On their way to the agent, in the order in which they were sent.
    pub orders: Vec<Order>,
    /// On their way to the server.
    pub reports: Vec<Report>,
    /// Every task whose program was ever started.
    started: BTreeSet<TaskId>,
}

impl Agent {
    pub fn new(node: Node) -> Self {
        let mut agent = Self {
            node,
            brain: Converge::new([]),
            tasks: BTreeMap::new(),
            forgotten: Vec::new(),
            orders: Vec::new(),
            reports: Vec::new(),
            started: BTreeSet::new(),
        };
        agent.announce();
        agent
    }

    /// Says what the node is.
    pub fn announce(&mut self) {
        self.reports.push(Report::Inventory {
            capacity: self.node.capacity.clone(),
            devices: self.node.devices.clone(),
            boot_id: self.node.boot_id.clone(),
            facts: NodeFacts::default(),
        });
    }

    /// Is killed and started again: it knows what it finds, and what was on its way is lost.
    pub fn restart(&mut self) {
        self.orders.clear();
        self.reports.clear();
        self.brain = Converge::new(self.forgotten.iter().copied());
        for task in self.tasks.keys().copied().collect::<Vec<_>>() {
            let report = self.tasks[&task].report(task);
            self.input(Input::Found(report));
        }
        self.announce();
    }

    pub fn obey(&mut self, order: Order) {
        self.input(Input::Order(order));
    }

    /// The next launched task's program starts.
    pub fn start(&mut self, pick: u32, now: Timestamp) {
        let Some(task) = self.pick(pick, |real| matches!(real.state, RealState::Launched)) else {
            return;
        };
        assert!(self.started.insert(task), "task {task} is started twice");
        self.real(task).state = RealState::Running { started_at: now };
        self.input(Input::Started { task, pid: 4242, started_at: now });
    }

    /// A launched task is not started, because somebody else is on its devices.
    pub fn refuse(&mut self, pick: u32) {
        let may = |real: &Real| {
            matches!(real.state, RealState::Launched)
                && !real.devices.is_empty()
                && !real.is_told_to_end
        };
        if let Some(task) = self.pick(pick, may) {
            let real = self.tasks.remove(&task).expect("it was picked");
            self.input(Input::Refused { task, devices: real.devices });
        }
    }

    /// A task ends.
    pub fn end(&mut self, pick: u32, code: i32, now: Timestamp) {
        let Some(task) = self.pick(pick, Real::is_live) else { return };
        let real = self.real(task);
        let started_at = match real.state {
            RealState::Running { started_at } => Some(started_at),
            RealState::Launched | RealState::Ended(_) => None,
        };
        let exit = match (real.is_told_to_end, started_at) {
            (false, Some(_)) => Some(ExitStatus::Code(code)),
            (true, Some(_)) => Some(ExitStatus::Signal(15)),
            (_, None) => None,
        };
        let stopped = real.is_told_to_end;
        let usage = Usage::default();
        let end = TaskEnd { started_at, ended_at: now, exit, cause: None, stopped, usage };
        real.state = RealState::Ended(end.clone());
        self.input(Input::Ended { task, end });
    }

    /// Tasks that were launched and have not ended, each with its devices.
    pub fn live(&self) -> impl Iterator<Item = (TaskId, &[DeviceUuid])> {
        let live = self.tasks.iter().filter(|(_, real)| real.is_live());
        live.map(|(task, real)| (*task, real.devices.as_slice()))
    }

    /// Whether nothing is left of any task.
    pub fn is_clean(&self) -> bool {
        self.tasks.is_empty()
    }

    fn input(&mut self, input: Input) {
        for action in self.brain.step(input) {
            match action {
                Action::Launch(order) => self.launch(&order),
                Action::Prevent { task, generation } => self.prevent(task, generation),
                Action::Stop { task, .. } => {
                    if let Some(real) = self.tasks.get_mut(&task) {
                        real.is_told_to_end = true;
                    }
                }
                Action::Signal { .. } => {}
                Action::Report(report) => self.reports.push(report),
                Action::Forget(task) => {
                    self.tasks.remove(&task);
                    self.forgotten.push(task);
                }
            }
        }
    }

    fn launch(&mut self, order: &TaskOrder) {
        let task = order.task();
        let real = Real {
            generation: order.generation,
            devices: order.allocation.slots.iter().map(|slot| slot.device.clone()).collect(),
            is_told_to_end: false,
            state: RealState::Launched,
        };
        let before = self.tasks.insert(task, real);
        assert!(before.is_none(), "task {task} is launched over {before:?}");
    }

    /// What was launched by now is found; what was not never will be.
    fn prevent(&mut self, task: TaskId, generation: Generation) {
        if let Some(real) = self.tasks.get(&task) {
            let report = real.report(task);
            return self.input(Input::Found(report));
        }
        let end = TaskEnd {
            started_at: None,
            ended_at: Timestamp::ZERO,
            exit: None,
            cause: None,
            stopped: true,
            usage: Usage::default(),
        };
        let state = RealState::Ended(end.clone());
        let real = Real { generation, devices: vec![], is_told_to_end: true, state };
        self.tasks.insert(task, real);
        self.input(Input::Ended { task, end });
    }

    fn pick(&self, pick: u32, wanted: impl Fn(&Real) -> bool) -> Option<TaskId> {
        let tasks: Vec<TaskId> =
            self.tasks.iter().filter(|(_, real)| wanted(real)).map(|(task, _)| *task).collect();
        tasks.get(usize::try_from(pick).ok()?.checked_rem(tasks.len())?).copied()
    }

    fn real(&mut self, task: TaskId) -> &mut Real {
        self.tasks.get_mut(&task).expect("it was picked")
    }
}

impl Real {
    fn is_live(&self) -> bool {
        !matches!(self.state, RealState::Ended(_))
    }

    fn report(&self, task: TaskId) -> TaskReport {
        let is = match &self.state {
            RealState::Launched => TaskIs::Launching,
            RealState::Running { started_at } => {
                TaskIs::Running { pid: 4242, started_at: *started_at }
            }
            RealState::Ended(end) => TaskIs::Ended(end.clone()),
        };
        TaskReport { task, generation: self.generation, is }
    }
}
