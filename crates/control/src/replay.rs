//! Repeats a journal: the same events at the same times must make the same plans and leave the same
//! records, byte for byte.

use gpool_model::agent::Report;
use gpool_model::event::Journaled;
use gpool_model::{
    Commit, Decision, Effect, Event, JournalEntry, Plan, PlannedStart, Policy, Revision, Seq,
};
use gpool_world::World;

use crate::control::Control;

/// A state machine that repeats a journal, one commit after the other.
#[derive(Debug, Clone)]
pub struct Replay {
    control: Control,
}

/// A difference between the repetition and the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Differs {
    /// A plan has another decision.
    Decision {
        /// The plan, by its place in the journal.
        seq: Seq,
        /// The position of the decision, from 0.
        nth: usize,
        /// The decision in the journal; `None` if there are no more.
        journaled: Option<Box<Decision>>,
        /// The decision made now; `None` if there are no more.
        replayed: Option<Box<Decision>>,
    },
    /// The decisions are equal, but other starts are planned, or at other times.
    Planned {
        /// The plan, by its place in the journal.
        seq: Seq,
        /// The planned starts in the journal; `None` where none were journaled again.
        journaled: Option<Vec<PlannedStart>>,
        /// The planned starts made now.
        replayed: Option<Vec<PlannedStart>>,
    },
    /// A journal entry differs, is missing, or is new.
    Entry {
        seq: Seq,
        journaled: Option<Box<JournalEntry>>,
        /// The entry made now.
        replayed: Option<Box<JournalEntry>>,
    },
    /// The revisions differ: a commit in between is missing.
    Revision {
        journaled: Revision,
        /// The revision made now; `None` if nothing changes.
        replayed: Option<Revision>,
    },
    /// The records at a start of the server contradict each other.
    Records { why: String },
}

impl Replay {
    /// Starts at the beginning of a cluster with its first policy.
    #[must_use]
    pub fn create(policy: Policy) -> Self {
        Self::of(Control::create(policy))
    }

    /// Starts from records within the life of a server, with the entries journaled since its start.
    #[must_use]
    pub fn within<'e>(
        world: World,
        since_start: impl IntoIterator<Item = &'e JournalEntry>,
    ) -> Self {
        let mut control = Control::remembering(world);
        for entry in since_start {
            control.remember(entry);
        }
        Self::of(control)
    }

    fn of(mut control: Control) -> Self {
        control.believe_all_durable();
        Self { control }
    }

    /// See [`Control::distort_plans`].
    pub fn distort_plans(&mut self, distort: fn(&mut Plan)) {
        self.control.distort_plans(distort);
    }

    /// The state so far.
    #[must_use]
    pub fn world(&self) -> &World {
        self.control.world()
    }

    /// Repeats one commit from its journal entries, in order, and returns the commit made now.
    ///
    /// # Errors
    /// The first difference from the journal. Commits after it can't be compared.
    pub fn commit(
        &mut self,
        revision: Revision,
        journaled: &[JournalEntry],
    ) -> Result<Commit, Differs> {
        let Some(first) = journaled.first() else {
            return Err(Differs::Revision { journaled: revision, replayed: None });
        };
        let now = first.time;
        let events: Vec<Event> = journaled.iter().filter_map(event).collect();
        let starts = matches!(events.first(), Some(Event::ServerStarted { .. }));
        if starts && self.world().revision() > Revision(0) {
            self.start_again()?;
        }
        // A timer that fired together with events is not journaled, and may have caused a plan.
        self.control.has_more =
            journaled.iter().any(|it| matches!(it.entry, Journaled::Planned { .. }));
        // A step without events was due to a timer.
        let timer = Some(Event::TimerFired).filter(|_| events.is_empty());
        let effects = self.control.step(now, events.into_iter().chain(timer));
        let made = effects.into_iter().find_map(|effect| match effect {
            Effect::Commit(commit) => Some(commit),
            _ => None,
        });
        let Some(made) = made else {
            return Err(Differs::Revision { journaled: revision, replayed: None });
        };
        compare(journaled, &made.journal)?;
        if made.revision != revision {
            let replayed = Some(made.revision);
            return Err(Differs::Revision { journaled: revision, replayed });
        }
        Ok(made)
    }

    /// Starts the server again: it loses everything beside its records.
    fn start_again(&mut self) -> Result<(), Differs> {
        let world = self.world();
        let world = World::load(world.revision(), world.records())
            .map_err(|error| Differs::Records { why: error.to_string() })?;
        let distort = self.control.distort;
        *self = Self::of(Control::new(world));
        self.control.distort = distort;
        Ok(())
    }
}

/// Returns the input of an entry; entries that follow from inputs are made again.
fn event(entry: &JournalEntry) -> Option<Event> {
    match &entry.entry {
        Journaled::Event(event) => Some(event.clone()),
        Journaled::Planned { .. } | Journaled::Kept { .. } => None,
    }
}

fn compare(journaled: &[JournalEntry], made: &[JournalEntry]) -> Result<(), Differs> {
    for ix in 0..journaled.len().max(made.len()) {
        match (journaled.get(ix), made.get(ix)) {
            (Some(was), Some(is)) if was == is => {}
            (Some(was), Some(is)) => return Err(difference(was, is)),
            (was, is) => {
                let seq = was.or(is).map(|entry| entry.seq).unwrap_or_default();
                let boxed = |entry: Option<&JournalEntry>| entry.cloned().map(Box::new);
                return Err(Differs::Entry { seq, journaled: boxed(was), replayed: boxed(is) });
            }
        }
    }
    Ok(())
}

fn difference(was: &JournalEntry, is: &JournalEntry) -> Differs {
    let seq = was.seq;
    if let (
        Journaled::Planned { decisions, planned, .. },
        Journaled::Planned { decisions: made, planned: made_planned, .. },
    ) = (&was.entry, &is.entry)
    {
        if let Some((nth, journaled, made)) = first_other(decisions, made) {
            let boxed = |decision: Option<&Decision>| decision.cloned().map(Box::new);
            return Differs::Decision {
                seq,
                nth,
                journaled: boxed(journaled),
                replayed: boxed(made),
            };
        }
        if planned != made_planned {
            let (journaled, replayed) = (planned.clone(), made_planned.clone());
            return Differs::Planned { seq, journaled, replayed };
        }
    }
    let (journaled, replayed) = (Some(Box::new(was.clone())), Some(Box::new(is.clone())));
    Differs::Entry { seq, journaled, replayed }
}

/// Returns the first position at which two lists differ, with both values.
pub fn first_other<'l, T: PartialEq>(
    one: &'l [T],
    other: &'l [T],
) -> Option<(usize, Option<&'l T>, Option<&'l T>)> {
    let places = 0..one.len().max(other.len());
    let mut pairs = places.map(|ix| (ix, one.get(ix), other.get(ix)));
    pairs.find(|(_, one, other)| one != other)
}

impl Control {
    /// Restores state that a server keeps in memory only, from its journal entries.
    fn remember(&mut self, entry: &JournalEntry) {
        match &entry.entry {
            Journaled::Planned { planned: Some(planned), .. } => {
                self.planned.clone_from(planned);
                self.journaled_starts.clone_from(planned);
            }
            Journaled::Event(Event::ServerStopping) => self.is_stopping = true,
            Journaled::Event(Event::DiskFull { is_full }) => self.is_full = *is_full,
            Journaled::Event(Event::Reported { node, report }) => match report {
                Report::Inventory { stamp, .. } => drop(self.introduce(node, stamp.clone())),
                Report::Task(report) => self.note_spoken_of(node, report.task),
                Report::Tasks { .. } => drop(self.take_spoken_of(node)),
                Report::Loan(_) | Report::Move(_) | Report::Output(_) => {}
            },
            Journaled::Planned { .. } | Journaled::Kept { .. } | Journaled::Event(_) => {}
        }
    }
}
