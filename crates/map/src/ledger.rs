//! Which items of a map are leased, recorded or set aside. A pure state machine: the driver tells
//! it about events, and stores its verdicts.
//!
//! If a worker dies with several items in flight, any of them may have killed it. Each of them
//! becomes a suspect, and is leased again alone: then a second death has one cause.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of an item, from 0 in the order of the list.
pub type ItemNumber = u64;

/// One attempt of a worker: `18.3#1`.
pub type WorkerName = String;

/// What a failure means for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is tried again, after this number of failed tries.
    Again(u32),
    /// It was tried often enough.
    SetAside(u32),
    /// It is recorded already, or leased to another worker.
    Ignored,
}

/// The items of a map.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    n_items: u64,
    tries_max: u32,
    /// A bit for each item: whether it is recorded or set aside.
    settled: Vec<u64>,
    n_done: u64,
    set_aside: BTreeSet<ItemNumber>,
    /// Failed tries of items, without those that are recorded.
    tries: BTreeMap<ItemNumber, u32>,
    /// The leases of each worker, oldest first.
    leases: BTreeMap<WorkerName, Vec<ItemNumber>>,
    /// Items to lease again.
    again: VecDeque<ItemNumber>,
    /// Items to lease again, alone.
    suspects: VecDeque<ItemNumber>,
    /// Suspects that are leased.
    watched: BTreeSet<ItemNumber>,
    /// The first item that was never leased.
    next: ItemNumber,
    /// Items from `next` on that workers of an earlier driver claimed.
    ahead: BTreeSet<ItemNumber>,
}

impl Ledger {
    /// The ledger of a list. An item is set aside after `tries_max` failed tries.
    #[must_use]
    pub fn new(n_items: u64, tries_max: u32) -> Self {
        let n_words = usize::try_from(n_items.div_ceil(64)).unwrap_or(usize::MAX);
        Self { n_items, tries_max, settled: vec![0; n_words], ..Self::default() }
    }

    fn is_settled(&self, item: ItemNumber) -> bool {
        let word = usize::try_from(item / 64).ok().and_then(|at| self.settled.get(at));
        word.is_none_or(|word| word & (1 << (item % 64)) != 0)
    }

    /// Marks an item as recorded or set aside; returns whether it was neither.
    fn settle(&mut self, item: ItemNumber) -> bool {
        if self.is_settled(item) {
            return false;
        }
        if let Some(word) = usize::try_from(item / 64).ok().and_then(|at| self.settled.get_mut(at))
        {
            *word |= 1 << (item % 64);
        }
        self.tries.remove(&item);
        self.watched.remove(&item);
        true
    }

    /// Takes an item from the queues, if it waits there.
    fn unqueue(&mut self, item: ItemNumber) {
        self.again.retain(|other| *other != item);
        self.suspects.retain(|other| *other != item);
    }

    /// Restores a record of an earlier driver.
    pub fn restore_done(&mut self, item: ItemNumber) {
        self.n_done += u64::from(self.settle(item));
    }

    /// Restores an item that an earlier driver set aside.
    pub fn restore_set_aside(&mut self, item: ItemNumber) {
        if self.settle(item) {
            self.set_aside.insert(item);
        }
    }

    /// Restores the failed tries of an item.
    pub fn restore_tries(&mut self, item: ItemNumber, tries: u32) {
        if !self.is_settled(item) {
            self.tries.insert(item, tries);
        }
    }

    /// Restores an item that was set aside before and is tried again.
    pub fn restore_again(&mut self, item: ItemNumber) {
        let word = usize::try_from(item / 64).ok().and_then(|at| self.settled.get_mut(at));
        if let Some(word) = word.filter(|_| self.set_aside.remove(&item)) {
            *word &= !(1 << (item % 64));
        }
    }

    /// Leases up to `n` items to a worker, in order; fewer if there are no more now.
    pub fn lease(&mut self, worker: &str, n: usize) -> Vec<ItemNumber> {
        let n_leased = self.leases.get(worker).map_or(0, Vec::len);
        let mut items = Vec::new();
        let is_watched =
            |leases: &Vec<ItemNumber>| leases.iter().any(|it| self.watched.contains(it));
        if self.leases.get(worker).is_some_and(is_watched) {
            // A suspect is alone with its worker.
            return items;
        }
        if n > 0
            && n_leased == 0
            && let Some(suspect) = self.suspects.pop_front()
        {
            self.watched.insert(suspect);
            items.push(suspect);
        }
        while items.is_empty() || self.watched.is_empty() || !self.watched.contains(&items[0]) {
            if items.len() >= n {
                break;
            }
            let Some(item) = self.again.pop_front().or_else(|| self.fresh()) else { break };
            items.push(item);
        }
        if !items.is_empty() {
            self.leases.entry(worker.to_owned()).or_default().extend(&items);
        }
        items
    }

    /// The next item that was never leased.
    fn fresh(&mut self) -> Option<ItemNumber> {
        while self.next < self.n_items {
            let item = self.next;
            self.next += 1;
            if !self.is_settled(item) && !self.ahead.remove(&item) {
                return Some(item);
            }
        }
        None
    }

    /// A worker that was connected to an earlier driver still has this item. Returns whether it may
    /// keep it.
    pub fn claim(&mut self, worker: &str, item: ItemNumber) -> bool {
        let is_leased = self.leases.values().any(|leases| leases.contains(&item));
        if is_leased || self.is_settled(item) {
            return self.leases.get(worker).is_some_and(|leases| leases.contains(&item));
        }
        self.unqueue(item);
        if item >= self.next {
            self.ahead.insert(item);
        }
        self.leases.entry(worker.to_owned()).or_default().push(item);
        true
    }

    fn drop_lease(&mut self, worker: &str, item: ItemNumber) -> bool {
        let Some(leases) = self.leases.get_mut(worker) else { return false };
        let n_before = leases.len();
        leases.retain(|other| *other != item);
        let is_dropped = leases.len() < n_before;
        if leases.is_empty() {
            self.leases.remove(worker);
        }
        is_dropped
    }

    /// Whether an item that a worker has handled is to be recorded: each item is once, whichever
    /// worker comes first.
    pub fn done(&mut self, worker: &str, item: ItemNumber) -> bool {
        if !self.drop_lease(worker, item) {
            self.unqueue(item);
        }
        let is_new = item < self.n_items && self.settle(item);
        self.n_done += u64::from(is_new);
        is_new
    }

    /// A worker says that it can't handle an item, or the item killed it.
    pub fn failed(&mut self, worker: &str, item: ItemNumber) -> Verdict {
        if !self.drop_lease(worker, item) || self.is_settled(item) {
            return Verdict::Ignored;
        }
        let was_watched = self.watched.remove(&item);
        let tries = self.tries.get(&item).copied().unwrap_or_default() + 1;
        if tries >= self.tries_max {
            self.settle(item);
            self.set_aside.insert(item);
            return Verdict::SetAside(tries);
        }
        self.tries.insert(item, tries);
        let queue = if was_watched { &mut self.suspects } else { &mut self.again };
        queue.push_back(item);
        Verdict::Again(tries)
    }

    /// Items that a worker did not begin.
    pub fn returned(&mut self, worker: &str, items: &[ItemNumber]) {
        for item in items {
            if self.drop_lease(worker, *item) && !self.is_settled(*item) {
                let queue =
                    if self.watched.remove(item) { &mut self.suspects } else { &mut self.again };
                queue.push_front(*item);
            }
        }
    }

    /// A worker's program died with these items in flight, or with all its leases. Returns the item
    /// that killed it, if that is known, with the verdict.
    pub fn crashed(
        &mut self,
        worker: &str,
        in_flight: Option<&[ItemNumber]>,
    ) -> Option<(ItemNumber, Verdict)> {
        let leases = self.leases.get(worker).cloned().unwrap_or_default();
        let items: Vec<ItemNumber> = match in_flight {
            Some(items) => leases.into_iter().filter(|item| items.contains(item)).collect(),
            None => leases,
        };
        if let [item] = items[..] {
            let verdict = self.failed(worker, item);
            // It is alone from now on: beside others it would make suspects of them.
            if let Some(at) = self.again.iter().position(|other| *other == item) {
                self.again.remove(at);
                self.suspects.push_back(item);
            }
            return Some((item, verdict));
        }
        for item in items {
            self.drop_lease(worker, item);
            if !self.is_settled(item) {
                self.suspects.push_back(item);
            }
        }
        None
    }

    /// Whether every item is recorded or set aside.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.n_done + self.set_aside.len() as u64 >= self.n_items
    }

    /// The workers with leases.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerName> {
        self.leases.keys()
    }

    /// The leases of a worker, oldest first.
    #[must_use]
    pub fn leases_of(&self, worker: &str) -> &[ItemNumber] {
        self.leases.get(worker).map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of items.
    #[must_use]
    pub fn n_items(&self) -> u64 {
        self.n_items
    }

    /// The number of recorded items.
    #[must_use]
    pub fn n_done(&self) -> u64 {
        self.n_done
    }

    /// The items that are set aside.
    #[must_use]
    pub fn set_aside(&self) -> &BTreeSet<ItemNumber> {
        &self.set_aside
    }
}
