//! Divides the free memory of one device between the tasks that have fractions of it. Pure: the
//! agent provides the figures, and writes the answer to the ledgers.

use gpool_model::Bytes;

/// A task with a fraction of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharer {
    /// The guaranteed memory.
    pub request: Bytes,
    /// The most memory; at least the request.
    pub limit: Bytes,
    /// The memory that its processes may use without asking.
    pub granted: Bytes,
    /// The memory that they use.
    pub used: Bytes,
    /// The memory that they need in all, if they ask for more.
    pub wish: Option<Bytes>,
}

impl Sharer {
    /// The memory that can't be given to another task.
    #[must_use]
    pub fn base(&self) -> Bytes {
        self.request.max(self.used)
    }
}

/// Returns the new grant of each task. `memory` is the part of the device that tasks can use:
/// without the driver's own, and without that of processes that gpool did not start.
///
/// A grant is never below request or use. Wishes are met in order, each in full or not at all, with
/// memory that no task has requested or uses. Other tasks keep a grant that they do not use as far
/// as memory remains.
#[must_use]
pub fn grants(memory: Bytes, sharers: &[Sharer]) -> Vec<Bytes> {
    let mut grants: Vec<Bytes> = sharers.iter().map(Sharer::base).collect();
    let taken = grants.iter().copied().fold(Bytes::ZERO, Bytes::saturating_add);
    let mut free = memory.saturating_sub(taken);
    for (grant, sharer) in grants.iter_mut().zip(sharers) {
        let Some(wish) = sharer.wish.filter(|wish| *wish <= sharer.limit) else { continue };
        let more = wish.saturating_sub(*grant);
        if more <= free {
            free = free.saturating_sub(more);
            *grant = grant.saturating_add(more);
        }
    }
    for (grant, sharer) in grants.iter_mut().zip(sharers) {
        let unused = sharer.granted.min(sharer.limit).saturating_sub(*grant).min(free);
        free = free.saturating_sub(unused);
        *grant = grant.saturating_add(unused);
    }
    grants
}
