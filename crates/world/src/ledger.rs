//! The free capacity of each node, in two counters for everything: `now` is usable at once; `later`
//! is free when all leaving jobs have left and all claims have started. Without claims `now` is
//! never more than `later`.

use std::collections::BTreeSet;

use gpool_model::{Allocation, AllocationState, Bytes, Node, ResourceKind, Resources, TaskId};

/// Free amounts of one kind. Only `now` may fall below zero, under a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Free {
    /// Usable at once.
    pub now: i64,
    /// Usable once all leaving jobs have left, less the amounts that are claimed.
    pub later: i64,
}

impl Free {
    fn of(capacity: u64) -> Self {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        Self { now: capacity, later: capacity }
    }

    /// Books or returns (`sign` -1 or 1) an amount that an allocation of this state holds.
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

/// One node with its free capacity.
#[derive(Debug, Clone)]
pub struct NodeRow {
    pub node: Node,
    /// The ledger of each of the node's devices, by position in `node.devices`.
    pub devices: Vec<DeviceLedger>,
    /// CPU, in thousandths of a core.
    pub cpu: Free,
    /// Host memory, in bytes.
    pub memory: Free,
    /// Tasks that may run at once.
    pub tasks: Free,
    /// Tasks without GPUs that may run at once.
    pub plain: Free,
    /// The node itself, in parts of [`Resources::WHOLE_NODE`].
    pub whole: Free,
    /// Tasks that hold or claim anything here.
    pub here: BTreeSet<TaskId>,
    /// How many devices are whole ([`NodeRow::is_whole`]): an upper bound of the devices that the
    /// node can give, so that a search skips a full node without a look at its devices.
    pub n_whole: usize,
    /// How many devices are shared ([`NodeRow::is_shared`]).
    pub n_shared: usize,
    /// Grows with each change: a result computed from this row is valid until then.
    pub n_changes: u64,
}

/// The free capacity of one device, and the tasks that hold the rest.
#[derive(Debug, Clone, Default)]
pub struct DeviceLedger {
    /// Free thousandths of the device, or of the GPU that it is an instance of.
    pub free: Free,
    /// Free bytes of its memory; they decide whether a share fits beside other shares.
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
        // A paused job keeps these.
        let keeps = match &allocation.state {
            AllocationState::Pausing => &AllocationState::Running,
            state => state,
        };
        let memory = amount(ResourceKind::Memory);
        let memory = memory.saturating_add(amount(ResourceKind::PauseMemory));
        self.memory.change(keeps, memory, sign);
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

    /// Returns `None` for a device that was removed from the machine while a task held it. The task
    /// still ends in its own time.
    fn ledger_mut(&mut self, allocation: &Allocation, uuid: &str) -> Option<&mut DeviceLedger> {
        let at = self.position(allocation, uuid)?;
        self.devices.get_mut(at)
    }

    fn position(&self, allocation: &Allocation, uuid: &str) -> Option<usize> {
        debug_assert_eq!(allocation.node, self.node.name);
        self.node.devices.iter().position(|device| device.uuid.as_str() == uuid)
    }

    /// Whether no task holds or claims any part of a device.
    #[must_use]
    pub fn is_whole(&self, device_ix: usize) -> bool {
        self.devices[device_ix].holders.is_empty()
    }

    /// Whether tasks hold or claim shares of a device, and none holds all of it.
    #[must_use]
    pub fn is_shared(&self, device_ix: usize) -> bool {
        let ledger = &self.devices[device_ix];
        !ledger.holders.is_empty() && ledger.n_whole_holders == 0
    }

    /// Returns how much memory of a device a further share may have; none where a task has all of
    /// the device.
    #[must_use]
    pub fn free_memory(&self, device_ix: usize) -> Bytes {
        let ledger = &self.devices[device_ix];
        let free = ledger.memory.now.min(ledger.memory.later);
        match ledger.n_whole_holders {
            0 => Bytes::new(u64::try_from(free).unwrap_or(0)),
            _ => Bytes::ZERO,
        }
    }

    /// Returns the resources besides devices that are free at once.
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
