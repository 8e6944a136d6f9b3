//! Verbs on jobs: what a user does to jobs that have not ended. A request names one job or many,
//! and the server carries it out for all of them or for none.
//!
//! A new verb is a variant here with its [`Rules`]; `gpool_wire::verb` has its row for the API.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::JobState;
use crate::unit::{Millis, Timestamp};

/// A verb on jobs, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobVerb {
    /// End jobs, or remove them from the queue.
    Cancel,
    /// Hold jobs, so that the scheduler ignores them.
    Hold,
    /// Release held jobs.
    Release {
        /// The time; `None` is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// Pause running jobs until they are resumed.
    Pause,
    /// Resume paused jobs when capacity is free.
    Resume,
    /// Send a signal to the processes of running jobs.
    Signal {
        /// The signal's number.
        signal: i32,
        /// The processes that get it.
        #[serde(default)]
        to: SignalTo,
    },
    /// Change the time limits of jobs, running or not.
    Extend {
        /// The change.
        change: LimitChange,
    },
    /// Stop running jobs and queue them again.
    Requeue {
        /// Whether they are held afterwards.
        hold: bool,
    },
}

/// The processes of a job that get a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalTo {
    /// The program and its process group.
    #[default]
    Job,
    /// The program alone, as in a script that handles the signal itself.
    Program,
    /// The processes that `srun` started, and not the script. A job without a script is a step
    /// itself.
    Steps,
}

impl SignalTo {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Job, Self::Program, Self::Steps];

    /// The name in the API and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Program => "program",
            Self::Steps => "steps",
        }
    }

    /// The value with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|to| to.as_str() == name)
    }
}

/// The rules of a verb, the same for all its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The word on the command line, in paths of the API, and in refusals.
    pub name: &'static str,
    /// The states of jobs that it applies to; `None`: every state but the ended ones.
    pub states: Option<&'static [JobState]>,
    /// Whether admins of a job's project may use it. They may use none that lets them act with the
    /// rights of the job's owner.
    pub is_for_project_admins: bool,
}

impl JobVerb {
    /// Each verb once, with its simplest parameters.
    pub const ALL: [Self; 8] = [
        Self::Cancel,
        Self::Hold,
        Self::Release { at: None },
        Self::Pause,
        Self::Resume,
        Self::Signal { signal: 15, to: SignalTo::Job },
        Self::Extend { change: LimitChange::To { limit: None } },
        Self::Requeue { hold: false },
    ];

    /// The verb with this name, with its simplest parameters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// Its rules.
    #[must_use]
    pub const fn rules(self) -> Rules {
        use JobState::{Held, Paused, Pending, Running, Starting, Waiting};
        let (name, states, is_for_project_admins): (_, Option<&'static [JobState]>, _) = match self
        {
            Self::Cancel => ("cancel", None, true),
            Self::Hold => ("hold", Some(&[Held, Waiting, Pending, Paused]), true),
            Self::Release { .. } => ("release", Some(&[Held, Paused]), true),
            Self::Pause => ("pause", Some(&[Running, Paused]), true),
            Self::Resume => ("resume", Some(&[Paused]), true),
            Self::Signal { .. } => ("signal", Some(&[Running]), false),
            Self::Extend { .. } => {
                ("extend", Some(&[Held, Waiting, Pending, Starting, Running, Paused]), false)
            }
            Self::Requeue { .. } => ("requeue", Some(&[Starting, Running, Paused]), true),
        };
        Rules { name, states, is_for_project_admins }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.rules().name
    }

    /// Returns whether it applies to jobs in a state.
    #[must_use]
    pub fn applies_in(self, state: JobState) -> bool {
        self.rules().states.map_or(!state.is_end(), |states| states.contains(&state))
    }
}

/// A change of a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitChange {
    /// Extend by a duration.
    Longer {
        /// The duration.
        by: Millis,
    },
    /// Shorten by a duration.
    Shorter {
        /// The duration.
        by: Millis,
    },
    /// Set the limit, counted from the start; `None` is no limit.
    To {
        /// The new limit.
        limit: Option<Millis>,
    },
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Longer { by } => write!(f, "{by} longer"),
            Self::Shorter { by } => write!(f, "{by} shorter"),
            Self::To { limit: Some(limit) } => write!(f, "{limit}"),
            Self::To { limit: None } => f.write_str("none"),
        }
    }
}
