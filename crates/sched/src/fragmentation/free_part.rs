//! The free part of a node, and the demand of a task, as the score of a placement sees them.

/// Thousandths of a whole device.
pub const WHOLE: u32 = 1000;

/// What a task needs of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskDemand {
    /// Thousandths of CPU cores.
    pub cpus: u64,
    /// Bytes of host memory.
    pub memory: u64,
    pub n_gpus: u32,
    /// Thousandths of each device; less than [`WHOLE`] is a share.
    pub part: u32,
    /// The models that it takes, one bit for each number of a model.
    pub models: u64,
}

impl TaskDemand {
    /// Returns the thousandths of all its devices together.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.n_gpus) * u64::from(self.part)
    }

    /// Whether it takes a part of each device.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.n_gpus > 0 && self.part < WHOLE
    }
}

/// The free part of a node. Which device has how much makes no difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FreePart {
    /// Number of the model of its devices, below 64.
    pub model: u32,
    /// Thousandths of CPU cores.
    pub cpus: u64,
    /// Bytes of host memory.
    pub memory: u64,
    /// Free thousandths of each device, ascending.
    pub free: Vec<u32>,
}

/// Free CPU cores are rounded down to multiples of this, in thousandths.
const CPUS_STEP: u64 = 500;

impl FreePart {
    /// Rounds CPU cores down and leaves out host memory, so that similar nodes compare as equal.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let cpus = self.cpus / CPUS_STEP * CPUS_STEP;
        Self { cpus, memory: 0, ..self.clone() }
    }

    /// Returns the free thousandths of all devices together.
    #[must_use]
    #[inline]
    pub fn gpus(&self) -> u64 {
        self.free.iter().map(|free| u64::from(*free)).sum()
    }

    #[must_use]
    #[inline]
    pub fn fits(&self, ask: &TaskDemand) -> bool {
        self.memory >= ask.memory && self.fits_but_memory(ask)
    }

    /// Whether a task fits, whatever host memory it needs.
    #[must_use]
    #[inline]
    pub fn fits_but_memory(&self, ask: &TaskDemand) -> bool {
        let n_gpus = ask.n_gpus as usize;
        self.cpus >= ask.cpus
            && (n_gpus == 0 || ask.models >> self.model & 1 == 1)
            && self.free.len() >= n_gpus
            && (n_gpus == 0 || self.free[self.free.len() - n_gpus] >= ask.part)
    }

    /// Returns the positions of the first device that a task may take. A share may take any device
    /// with room, the fullest first, one of several equally full ones. Whole devices leave no
    /// choice.
    pub fn choices(&self, ask: &TaskDemand) -> impl Iterator<Item = usize> + use<'_> {
        let is_share = ask.is_share();
        let part = ask.part;
        let first = self.free.len() - ask.n_gpus as usize;
        let of_shares = (0..self.free.len()).take(first + 1).filter(move |at| {
            let free = self.free[*at];
            is_share && free >= part && (*at == 0 || self.free[at - 1] != free)
        });
        of_shares.chain((!is_share).then_some(first))
    }

    /// Returns the free part once a task has its devices, from that position on.
    #[must_use]
    pub fn after(&self, ask: &TaskDemand, at: usize) -> Self {
        let mut after = self.clone();
        after.take(ask, at);
        after.memory = self.memory.saturating_sub(ask.memory);
        after
    }

    /// Takes CPU cores and devices in place.
    pub(crate) fn take(&mut self, ask: &TaskDemand, at: usize) {
        self.cpus -= ask.cpus;
        let taken = &mut self.free[at..at + ask.n_gpus as usize];
        taken.iter_mut().for_each(|free| *free -= ask.part);
        self.free.sort_unstable();
    }
}
