//! The inputs and outputs of one state machine, to replay it.

use gpool_control::Control;
use gpool_control::replay::Replay;
use gpool_model::{Effect, Event, Record, Revision, Timestamp};
use gpool_world::World;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::sim::Sim;
use crate::sim::distortion::{begun, distortion};
use crate::swarm;

/// What went in and came out since a state machine was made.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    records: Vec<Record>,
    revision: Revision,
    inputs: Vec<(Timestamp, Vec<Event>)>,
    outputs: Vec<Vec<Effect>>,
    clock: Timestamp,
}

impl Life {
    /// Of a state machine over these records; none for one that is new.
    pub fn new(records: Vec<Record>, revision: Revision) -> Self {
        Self { records, revision, inputs: Vec::new(), outputs: Vec::new(), clock: Timestamp::ZERO }
    }

    /// The time as the state machine has seen it: a clock that jumps back is held.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Steps, and remembers.
    pub fn step(
        &mut self,
        control: &mut Control,
        clock: Timestamp,
        events: Vec<Event>,
    ) -> Vec<Effect> {
        self.inputs.push((clock, events.clone()));
        self.clock = self.clock.max(clock);
        let effects = control.step(clock, events);
        self.outputs.push(effects.clone());
        effects
    }

    /// Checks that the journal is enough to replay all of it.
    fn replay_journal(&self, bug: Option<Bug>) -> Result<(), String> {
        let mut replay = match self.records.is_empty() {
            true => Replay::create(swarm::policy(bug)),
            false => {
                let world = World::load(self.revision, self.records.iter().cloned());
                Replay::within(world.expect("these records were loaded before"), [])
            }
        };
        if let Some(distort) = bug.and_then(distortion) {
            replay.distort_plans(distort);
        }
        for effect in self.outputs.iter().flatten() {
            let Effect::Commit(commit) = effect else { continue };
            let made = replay.commit(commit.revision, &commit.journal);
            let made =
                made.map_err(|differs| format!("the journal leads elsewhere: {differs:?}"))?;
            if made != *commit {
                return Err(format!("from the journal {made:?} comes, and it was {commit:?}"));
            }
        }
        Ok(())
    }

    fn begin(&self, bug: Option<Bug>) -> Control {
        if self.records.is_empty() {
            return begun(Control::create(swarm::policy(bug)), bug);
        }
        // In another order: it must not matter.
        let records = self.records.iter().rev().cloned();
        let world = World::load(self.revision, records);
        begun(Control::new(world.expect("these records were loaded before")), bug)
    }
}

impl Sim {
    /// The same inputs do the same again, effect for effect, and lead to the same `end`.
    pub(crate) fn replay(&mut self, life: &Life, end: &World) {
        if self.broken.is_some() {
            return;
        }
        let mut control = life.begin(self.bug);
        for ((clock, events), expected) in life.inputs.iter().zip(&life.outputs) {
            let effects = control.step(*clock, events.clone());
            if effects != *expected {
                let what = format!("{events:?} did {expected:?}, and then {effects:?}");
                return self.blame(Invariant::Replay, what);
            }
        }
        if control.world().records() != end.records() {
            self.blame(Invariant::Replay, "the same steps left other records".to_owned());
        }
        if let Err(what) = life.replay_journal(self.bug) {
            self.blame(Invariant::Replay, what);
        }
    }
}
