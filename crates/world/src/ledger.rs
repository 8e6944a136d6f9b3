//! What is free on each node. Two counters of everything: `now`, what can be used at once, and
//! `later`, what will be free when everyone who is leaving has left and everyone who has a claim
//! has come. Without claims `now` is never more than `later`.

use std::collections::BTreeSet;

use gpool_model::{Allocation, AllocationState, Bytes, Node, ResourceKind, Resources, TaskId};

/// Free amounts of one kind; may fall below zero only for `now`, under a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Free {
    /// Usable at once.
    pub now: i64,
    /// Usable once everyone who leaves has left, less what is claimed.
    pub later: i64,
}

impl Free {
    fn of(capacity: u64) -> Self {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        Self { now: capacity, later: capacity }
    }

    /// Books or returns (`sign` -1 or 1) an amount that is held in that state.
    fn change(&mut self, state: &AllocationState, amount: u64, sign: i64) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX).saturating_mul(sign);
        self.now = self.now.saturating_add(amount);
        match state {
            AllocationState::Releasing { .. } | AllocationState::Pausing => {}
            AllocationState::Claimed { .. }
            | AllocationState::Placed
            | AllocationState::Running
            | AllocationState::Paused { .. } => self.later = self.later.saturating_add(amount),
        }
    }
}

/// One node with what is free on it.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// The node as recorded.
    pub node: Node,
    /// Of each of the node's devices, by position in `node.devices`.
    pub devices: Vec<DeviceLedger>,
    /// CPU, in thousandths of a core.
    pub cpu: Free,
    /// Host memory, in bytes.
    pub memory: Free,
    /// Tasks that may run at once.
    pub tasks: Free,
    /// Those of them that may be without GPUs.
    pub plain: Free,
    /// The node itself, in parts of [`Resources::WHOLE_NODE`].
    pub whole: Free,
    /// Tasks that hold or claim anything here.
    pub here: BTreeSet<TaskId>,
    /// How many devices are whole ([`NodeRow::is_whole`]): an upper bound of what can be given out,
    /// so that a full node is passed over without a look at its devices.
    pub n_whole: usize,
    /// How many devices are shared ([`NodeRow::is_shared`]).
    pub n_shared: usize,
    /// Grows with each change: what was worked out of it holds until then.
    pub n_changes: u64,
}

/// What is free of one device and who holds the rest.
#[derive(Debug, Clone, Default)]
pub struct DeviceLedger {
    /// Thousandths of the device, or of that of which it is an instance, that are not charged.
    pub free: Free,
    /// Bytes of its memory; what fits beside other shares is asked in these.
    pub memory: Free,
    /// How many of the holders have all of it.
    n_whole_holders: u32,
    /// Tasks that hold or claim a part of it, in the order of their ids.
    pub holders: Vec<TaskId>,
}

impl NodeRow {
    pub(crate) fn new(node: Node) -> Self {
        let devices = node.devices.iter().map(|device| DeviceLedger {
            free: Free::of(device.counts_as().get()),
            memory: Free::of(device.memory.get()),
            n_whole_holders: 0,
            holders: vec![],
        });
        let free = |kind| Free::of(node.capacity.get(&kind));
        Self {
            n_whole: node.devices.len(),
            n_shared: 0,
            n_changes: 0,
            here: BTreeSet::new(),
            devices: devices.collect(),
            cpu: free(ResourceKind::Cpu),
            memory: free(ResourceKind::Memory),
            tasks: free(ResourceKind::Tasks),
            plain: Free::of(node.plain_tasks()),
            whole: Free::of(Resources::WHOLE_NODE),
            node,
        }
    }

    pub(crate) fn book(&mut self, allocation: &Allocation) {
        self.change(allocation, -1);
        for slot in allocation.held_slots() {
            if let Some(ledger) = self.ledger_mut(allocation, slot.device.as_str())
                && let Err(at) = ledger.holders.binary_search(&allocation.task)
            {
                ledger.holders.insert(at, allocation.task);
                ledger.n_whole_holders += u32::from(slot.part.is_alone());
            }
        }
        self.here.insert(allocation.task);
        self.count_whole();
    }

    pub(crate) fn unbook(&mut self, allocation: &Allocation) {
        self.change(allocation, 1);
        for slot in allocation.held_slots() {
            if let Some(ledger) = self.ledger_mut(allocation, slot.device.as_str())
                && let Ok(at) = ledger.holders.binary_search(&allocation.task)
            {
                ledger.holders.remove(at);
                ledger.n_whole_holders -= u32::from(slot.part.is_alone());
            }
        }
        self.here.remove(&allocation.task);
        self.count_whole();
    }

    fn count_whole(&mut self) {
        self.n_changes += 1;
        let count =
            |test: &dyn Fn(usize) -> bool| (0..self.devices.len()).filter(|ix| test(*ix)).count();
        (self.n_whole, self.n_shared) =
            (count(&|ix| self.is_whole(ix)), count(&|ix| self.is_shared(ix)));
    }

    fn change(&mut self, allocation: &Allocation, sign: i64) {
        let amount = |kind| allocation.resources.get(&kind);
        self.cpu.change(&allocation.state, amount(ResourceKind::Cpu), sign);
        self.whole.change(&allocation.state, allocation.of_node(), sign);
        // Who is paused keeps these.
        let keeps = match &allocation.state {
            AllocationState::Pausing => &AllocationState::Running,
            state => state,
        };
        self.memory.change(keeps, amount(ResourceKind::Memory), sign);
        self.tasks.change(keeps, amount(ResourceKind::Tasks), sign);
        self.plain.change(keeps, allocation.plain_tasks(), sign);
        for slot in allocation.held_slots() {
            if let Some(at) = self.position(allocation, slot.device.as_str()) {
                let memory = slot.part.memory_of(self.node.devices[at].memory);
                let ledger = &mut self.devices[at];
                ledger.free.change(&allocation.state, slot.part.charge().get(), sign);
                ledger.memory.change(&allocation.state, memory.get(), sign);
            }
        }
    }

    /// A device that was taken out of the machine while a task held it has no ledger; its task
    /// still ends in its own time.
    fn ledger_mut(&mut self, allocation: &Allocation, uuid: &str) -> Option<&mut DeviceLedger> {
        let at = self.position(allocation, uuid)?;
        self.devices.get_mut(at)
    }

    fn position(&self, allocation: &Allocation, uuid: &str) -> Option<usize> {
        debug_assert_eq!(allocation.node, self.node.name);
        self.node.devices.iter().position(|device| device.uuid.as_str() == uuid)
    }

    /// Whether nobody holds or claims any part of a device.
    #[must_use]
    pub fn is_whole(&self, device_ix: usize) -> bool {
        self.devices[device_ix].holders.is_empty()
    }

    /// Whether somebody holds or claims a share of a device, and nobody all of it.
    #[must_use]
    pub fn is_shared(&self, device_ix: usize) -> bool {
        let ledger = &self.devices[device_ix];
        !ledger.holders.is_empty() && ledger.n_whole_holders == 0
    }

    /// How much memory of a device a share may have, beside the shares that are there; none where
    /// somebody has all of it.
    #[must_use]
    pub fn free_memory(&self, device_ix: usize) -> Bytes {
        let ledger = &self.devices[device_ix];
        let free = ledger.memory.now.min(ledger.memory.later);
        match ledger.n_whole_holders {
            0 => Bytes::new(u64::try_from(free).unwrap_or(0)),
            _ => Bytes::ZERO,
        }
    }

    /// What is free at once beside devices.
    #[must_use]
    pub fn free_now(&self) -> Resources {
        let amount = |free: Free| u64::try_from(free.now.min(free.later)).unwrap_or(0);
        let mut resources = Resources::none();
        resources.set(ResourceKind::Cpu, amount(self.cpu));
        resources.set(ResourceKind::Memory, amount(self.memory));
        resources.set(ResourceKind::Tasks, amount(self.tasks));
        resources
    }
}
