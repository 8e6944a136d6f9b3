//! What is left of a node, and what a task asks of one.

/// Thousandths of a whole device.
pub const WHOLE: u32 = 1000;

/// What a task asks of the node that it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// Thousandths of a core.
    pub cpus: u64,
    /// Bytes of host memory.
    pub memory: u64,
    /// How many devices.
    pub n_gpus: u32,
    /// Thousandths of each; less than [`WHOLE`] is a share.
    pub part: u32,
    /// Bits by number of the model: those that it takes.
    pub models: u64,
}

impl Ask {
    /// Thousandths of devices that it gets.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.n_gpus) * u64::from(self.part)
    }

    /// Whether it takes part of one device.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.n_gpus > 0 && self.part < WHOLE
    }
}

/// What is left of a node. Which of its devices have how much left makes no difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Number of the model of its devices, below 64.
    pub model: u32,
    /// Thousandths of cores.
    pub cpus: u64,
    /// Bytes of host memory.
    pub memory: u64,
    /// Thousandths of each device, ascending.
    pub free: Vec<u32>,
}

/// Cores are looked at by so many thousandths.
const CPUS_STEP: u64 = 500;

impl Left {
    /// What of it is looked at: cores rounded down, no host memory.
    pub(crate) fn rounded(&self) -> Self {
        let cpus = self.cpus / CPUS_STEP * CPUS_STEP;
        Self { cpus, memory: 0, ..self.clone() }
    }

    /// Thousandths of devices.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.free.iter().map(|free| u64::from(*free)).sum()
    }

    /// Devices of which nothing is taken.
    #[must_use]
    pub fn n_whole(&self) -> usize {
        self.free.iter().rev().take_while(|free| **free == WHOLE).count()
    }

    /// Whether a task finds room.
    #[must_use]
    pub fn fits(&self, ask: &Ask) -> bool {
        self.memory >= ask.memory && self.fits_but_memory(ask)
    }

    /// The same for whoever does not look at host memory.
    pub(crate) fn fits_but_memory(&self, ask: &Ask) -> bool {
        let n_gpus = ask.n_gpus as usize;
        self.cpus >= ask.cpus
            && (n_gpus == 0 || ask.models >> self.model & 1 == 1)
            && self.free.len() >= n_gpus
            && (n_gpus == 0 || self.free[self.free.len() - n_gpus] >= ask.part)
    }

    /// Of devices that a share may go to, one of each that have as much left: positions, the
    /// tightest first. Nothing to choose for other tasks that fit: those take what is left whole.
    pub(crate) fn choices(&self, ask: &Ask) -> impl Iterator<Item = usize> {
        let is_share = ask.is_share();
        let part = ask.part;
        let first = self.free.len() - ask.n_gpus as usize;
        let of_shares = (0..self.free.len()).take(first + 1).filter(move |at| {
            let free = self.free[*at];
            is_share && free >= part && (*at == 0 || self.free[at - 1] != free)
        });
        of_shares.chain((!is_share).then_some(first))
    }

    /// What is left once a task has its part of the devices from that position on.
    pub(crate) fn after(&self, ask: &Ask, at: usize) -> Self {
        let mut after = self.clone();
        after.take(ask, at);
        after.memory = self.memory.saturating_sub(ask.memory);
        after
    }

    /// The same in place, but for host memory.
    pub(super) fn take(&mut self, ask: &Ask, at: usize) {
        self.cpus -= ask.cpus;
        let taken = &mut self.free[at..at + ask.n_gpus as usize];
        taken.iter_mut().for_each(|free| *free -= ask.part);
        self.free.sort_unstable();
    }
}
