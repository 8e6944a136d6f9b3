//! Messages on their way: lost, repeated, out of order, late, and cut off in either direction.

use std::collections::BTreeMap;

use gpool_model::agent::{Order, Report};
use gpool_model::{Incarnation, Term};

/// An order on its way.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub to: Option<Incarnation>,
    pub order: Order,
    /// The last beat of the agent that the server had answered.
    pub beat: Option<u64>,
}

/// A report on its way.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// Which agent of its node said it, counted from 1.
    pub by: u32,
    pub report: Report,
}

/// A beat of an agent on its way, or the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Which agent of its node sent it.
    pub by: u32,
    /// When, by the agent's clock.
    pub sent_at: u64,
    pub is_answer: bool,
}

/// The way between the server and one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub orders: Vec<Sent>,
    pub reports: Vec<Said>,
    pub is_cut_down: bool,
    pub is_cut_up: bool,
    /// How long beats and their answers take.
    pub lag: u64,
    beats: BTreeMap<(u64, u64), Beat>,
    late_orders: BTreeMap<(u64, u64), Sent>,
    late_reports: BTreeMap<(u64, u64), Said>,
    n_late: u64,
}

impl Link {
    /// More messages than this are not on their way at once; the oldest is lost.
    const MOST: usize = 64;

    pub fn send(&mut self, sent: Sent) {
        if !self.is_cut_down {
            push(&mut self.orders, sent);
        }
    }

    pub fn say(&mut self, said: Said) {
        if !self.is_cut_up {
            push(&mut self.reports, said);
        }
    }

    /// A beat or an answer leaves.
    pub fn send_beat(&mut self, beat: Beat, now: u64) {
        let is_cut = if beat.is_answer { self.is_cut_down } else { self.is_cut_up };
        if !is_cut {
            self.n_late += 1;
            self.beats.insert((now + self.lag, self.n_late), beat);
        }
    }

    /// Returns the beats and answers that arrive.
    pub fn due_beats(&mut self, now: u64) -> Vec<Beat> {
        let later = self.beats.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.beats, later).into_values().collect()
    }

    /// When the next beat or answer arrives.
    pub fn next_beat(&self) -> Option<u64> {
        self.beats.keys().next().map(|(at, _)| *at)
    }

    /// An order takes until then.
    pub fn delay_order(&mut self, pick: u64, until: u64) {
        if let Some(sent) = take(&mut self.orders, pick, false) {
            self.n_late += 1;
            self.late_orders.insert((until, self.n_late), sent);
        }
    }

    /// A report takes until then.
    pub fn delay_report(&mut self, pick: u64, until: u64) {
        if let Some(said) = take(&mut self.reports, pick, false) {
            self.n_late += 1;
            self.late_reports.insert((until, self.n_late), said);
        }
    }

    /// When the next late message arrives.
    pub fn next(&self) -> Option<u64> {
        let orders = self.late_orders.keys().next().into_iter();
        orders.chain(self.late_reports.keys().next()).map(|(at, _)| *at).min()
    }

    /// Returns the late orders that are due.
    pub fn due_orders(&mut self, now: u64) -> Vec<Sent> {
        let later = self.late_orders.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.late_orders, later).into_values().collect()
    }

    /// Returns the late reports that are due.
    pub fn due_reports(&mut self, now: u64) -> Vec<Said> {
        let later = self.late_reports.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.late_reports, later).into_values().collect()
    }

    /// Delivers late messages without further delay.
    pub fn hasten(&mut self) {
        self.orders.extend(std::mem::take(&mut self.late_orders).into_values());
        self.reports.extend(std::mem::take(&mut self.late_reports).into_values());
    }

    /// Nothing is on its way.
    pub fn is_quiet(&self) -> bool {
        self.orders.is_empty() && self.reports.is_empty() && self.next().is_none()
    }
}

fn push<T>(messages: &mut Vec<T>, message: T) {
    if messages.len() == Link::MOST {
        messages.remove(0);
    }
    messages.push(message);
}

/// Takes a message out of those on their way; `again` leaves a copy, behind all others.
pub(crate) fn take<T: Clone>(messages: &mut Vec<T>, pick: u64, again: bool) -> Option<T> {
    let n = u64::try_from(messages.len()).expect("a vector fits in memory");
    let at = usize::try_from(pick.checked_rem(n)?).expect("below a length");
    let message = messages.remove(at);
    if again {
        messages.push(message.clone());
    }
    Some(message)
}

/// Changes the term of an order.
pub(crate) fn set_term(order: &mut Order, new: Term) {
    match order {
        Order::Run(run) => run.term = new,
        Order::Sync { term, .. }
        | Order::Stop { term, .. }
        | Order::Change { term, .. }
        | Order::Pause { term, .. }
        | Order::Resume { term, .. }
        | Order::Signal { term, .. }
        | Order::Acknowledge { term, .. } => *term = new,
    }
}
