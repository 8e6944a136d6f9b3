//! What was journaled is done again: the same events at the same moments must make the same plans
//! and leave the same records, byte for byte.

use gpool_model::agent::Report;
use gpool_model::event::Journaled;
use gpool_model::{
    Commit, Decision, Effect, Event, JournalEntry, Plan, PlannedStart, Policy, Revision, Seq,
};
use gpool_world::World;

use crate::control::Control;

/// A state machine that is led along a journal, one commit after the other.
#[derive(Debug, Clone)]
pub struct Replay {
    control: Control,
}

/// Where what was done again is not what was journaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Differs {
    /// A plan has another decision.
    Decision {
        /// The plan, by its place in the journal.
        seq: Seq,
        /// Which of its decisions, from 0.
        nth: usize,
        /// The one in the journal; `None` if it has no more.
        journaled: Option<Box<Decision>>,
        /// The one that is made now; `None` if no more are made.
        made: Option<Box<Decision>>,
    },
    /// The same is decided, and others are planned to start, or at another moment.
    Planned {
        /// The plan, by its place in the journal.
        seq: Seq,
        /// Those in the journal; `None` where nobody was told anew.
        journaled: Option<Vec<PlannedStart>>,
        /// Those that are planned now.
        made: Option<Vec<PlannedStart>>,
    },
    /// Another entry is made, or none, or one more.
    Entry {
        /// Its place in the journal.
        seq: Seq,
        /// The one in the journal.
        journaled: Option<Box<JournalEntry>>,
        /// The one that is made now.
        made: Option<Box<JournalEntry>>,
    },
    /// It makes another revision, so that a commit is missing in between.
    Revision {
        /// The one in the journal.
        journaled: Revision,
        /// The one that is made now; `None` if nothing changes.
        made: Option<Revision>,
    },
    /// The records that a start begins with contradict each other.
    Records {
        /// How.
        why: String,
    },
}

impl Replay {
    /// From the beginning of a cluster; `policy` is the one that it began with.
    #[must_use]
    pub fn create(policy: Policy) -> Self {
        Self::of(Control::create(policy))
    }

    /// From records within the life of a server, which journaled these entries since it started.
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

    /// The state as it has become.
    #[must_use]
    pub fn world(&self) -> &World {
        self.control.world()
    }

    /// Does one commit again, from its entries of the journal, in order, and answers with what it
    /// commits now.
    ///
    /// # Errors
    /// Where that differs from what was journaled. Nothing after it can be compared.
    pub fn commit(
        &mut self,
        revision: Revision,
        journaled: &[JournalEntry],
    ) -> Result<Commit, Differs> {
        let Some(first) = journaled.first() else {
            return Err(Differs::Revision { journaled: revision, made: None });
        };
        let now = first.time;
        let events: Vec<Event> = journaled.iter().filter_map(event).collect();
        let starts = matches!(events.first(), Some(Event::ServerStarted { .. }));
        if starts && self.world().revision() > Revision(0) {
            self.start_again()?;
        }
        // A step in which nothing was said is one for which a moment had come.
        let timer = Some(Event::TimerFired).filter(|_| events.is_empty());
        let effects = self.control.step(now, events.into_iter().chain(timer));
        let made = effects.into_iter().find_map(|effect| match effect {
            Effect::Commit(commit) => Some(commit),
            _ => None,
        });
        let Some(made) = made else {
            return Err(Differs::Revision { journaled: revision, made: None });
        };
        compare(journaled, &made.journal)?;
        if made.revision != revision {
            let made = Some(made.revision);
            return Err(Differs::Revision { journaled: revision, made });
        }
        Ok(made)
    }

    /// What a server knows beside its records is gone when it ends.
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

/// What was put in; what followed from it is made again.
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
                return Err(Differs::Entry { seq, journaled: boxed(was), made: boxed(is) });
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
            return Differs::Decision { seq, nth, journaled: boxed(journaled), made: boxed(made) };
        }
        if planned != made_planned {
            let (journaled, made) = (planned.clone(), made_planned.clone());
            return Differs::Planned { seq, journaled, made };
        }
    }
    let (journaled, made) = (Some(Box::new(was.clone())), Some(Box::new(is.clone())));
    Differs::Entry { seq, journaled, made }
}

/// The first place at which two lists are not the same, with what stands there.
pub fn first_other<'l, T: PartialEq>(
    one: &'l [T],
    other: &'l [T],
) -> Option<(usize, Option<&'l T>, Option<&'l T>)> {
    let places = 0..one.len().max(other.len());
    let mut pairs = places.map(|ix| (ix, one.get(ix), other.get(ix)));
    pairs.find(|(_, one, other)| one != other)
}

impl Control {
    /// What a server has learnt since it started and keeps in no record, from what it journaled.
    fn remember(&mut self, entry: &JournalEntry) {
        match &entry.entry {
            Journaled::Planned { planned: Some(planned), .. } => {
                self.planned.clone_from(planned);
                self.planned_told.clone_from(planned);
            }
            Journaled::Event(Event::ServerStopping) => self.is_stopping = true,
            Journaled::Event(Event::Reported { node, report }) => match report {
                Report::Inventory { stamp, .. } => drop(self.introduce(node, stamp.clone())),
                Report::Task(report) => self.note_spoken_of(node, report.task),
                Report::Tasks { .. } => drop(self.take_spoken_of(node)),
            },
            Journaled::Planned { .. } | Journaled::Kept { .. } | Journaled::Event(_) => {}
        }
    }
}
