//! Queued jobs in order: the heads of their lines, and the jobs that follow these in their shapes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, btree_set};
use std::ops::Bound;

use gpool_model::Policy;
use gpool_world::order::Rank;
use gpool_world::{PendingQueue, QueueHead, World};

/// The queued jobs of one project, of one user of it, or of all.
#[derive(Default)]
pub(crate) struct Heads<'w> {
    /// Lines that are not read yet.
    closed: Vec<&'w PendingQueue>,
    lines: Vec<(&'w PendingQueue, btree_set::Iter<'w, QueueHead>)>,
    /// The next head of each line.
    firsts: BinaryHeap<Reverse<(&'w QueueHead, usize)>>,
    /// Jobs that follow heads, and arrays with further elements.
    more: BinaryHeap<Reverse<QueueHead>>,
}

impl<'w> Heads<'w> {
    /// Adds the jobs of a line. It is read when it is opened.
    pub fn add(&mut self, line: &'w PendingQueue) {
        self.closed.push(line);
    }

    /// Opens the lines that were added, except the skipped ones.
    pub fn open(&mut self, mut is_skipped: impl FnMut(&PendingQueue) -> bool) {
        while let Some(line) = self.closed.pop() {
            if !is_skipped(line) {
                self.lines.push((line, line.heads()));
                self.next_of(self.lines.len() - 1);
            }
        }
    }

    fn next_of(&mut self, line: usize) {
        let (_, heads) = &mut self.lines[line];
        self.firsts.extend(heads.next().map(|head| Reverse((head, line))));
    }

    /// Whether the next job, in opened lines or in others, is escalated.
    pub fn next_is_escalated(&self) -> bool {
        let closed = self.closed.iter().filter_map(|line| line.heads().next());
        let opened = self.first().map(|(head, _)| head);
        closed.chain(opened).min().is_some_and(|head| head.is_escalated)
    }

    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.firsts.is_empty() && self.more.is_empty()
    }

    /// The line of the next job with its position, if the next job is a head of a line.
    pub fn line(&self) -> Option<(usize, &'w PendingQueue)> {
        let Reverse((first, line)) = self.firsts.peek()?;
        let more = self.more.peek().map(|Reverse(head)| head);
        more.is_none_or(|more| *first <= more).then(|| (*line, self.lines[*line].0))
    }

    /// Skips the rest of that line.
    pub fn skip_line(&mut self) {
        self.firsts.pop();
    }

    /// The next job, and whether it is a head of a line.
    pub fn first(&self) -> Option<(&QueueHead, bool)> {
        let first = self.firsts.peek().map(|Reverse((head, _))| (*head, true));
        let more = self.more.peek().map(|Reverse(head)| (head, false));
        [first, more].into_iter().flatten().min_by_key(|(head, _)| *head)
    }

    /// Removes the next job.
    pub fn advance(&mut self) {
        match self.first() {
            Some((_, true)) => {
                let Some(Reverse((_, line))) = self.firsts.pop() else { return };
                self.next_of(line);
            }
            Some((_, false)) => drop(self.more.pop()),
            None => {}
        }
    }

    /// Puts back a job that was removed.
    pub fn push_again(&mut self, head: QueueHead) {
        self.more.push(Reverse(head));
    }

    /// Adds the job that follows `head` in its shape.
    pub fn push_next(&mut self, world: &World, policy: &Policy, head: &QueueHead) {
        let queue = world.shape(head.shape_ix);
        let jobs = if head.is_escalated { &queue.escalated } else { &queue.fresh };
        let after = Bound::Excluded((head.rank.submitted_at(), head.job()));
        if let Some((at, job)) = jobs.range((after, Bound::Unbounded)).next().copied() {
            let rank = Rank::of(policy, &queue.shape, head.is_escalated, at, job);
            self.more.push(Reverse(QueueHead { rank, ..*head }));
        }
    }
}
