//! The fields of a job request, a row each: how a field is written as a flag, how requests that
//! are written in layers merge, and what the field becomes in [`JobRequest`].
//!
//! The flags of `gpool submit`, its variables and directives, JSON lines and the API all read this
//! table. [`crate::JobCreate`] holds the values as they were written.

use gpool_model::request::edit::EDITS;
use gpool_model::{JobRequest, JobSpec, Refusal};

use crate::create::JobCreate;
use crate::job::Job;

mod flag;
mod rows;
mod value;
pub mod written;

pub use flag::{Flag, Values};
pub use rows::fields;
pub use value::Slot;

/// One field of a job request.
pub struct Field {
    /// Its name in JSON.
    pub key: &'static str,
    /// The flag that says it, where one flag does.
    pub flag: Option<Flag>,
    /// The fields that are said together: one layer says all of them, or another does.
    pub group: Group,
    /// Whether the request says it.
    pub is_said: fn(&JobCreate) -> bool,
    /// Takes it over from a layer below.
    pub take: fn(&mut JobCreate, &JobCreate),
    /// Puts the values of a layer below before its own, where it is a list that layers share.
    pub join: Option<fn(&mut JobCreate, &JobCreate)>,
    /// The place of its value.
    pub slot: fn(&mut JobCreate) -> Slot<'_>,
    /// Whether an edit can take it away, by `null` or by the word `none`.
    pub clears: bool,
    /// Checks it and writes it into the request. Where several fields are checked together, one
    /// of them does it for all.
    pub apply: fn(&JobCreate, &mut JobRequest) -> Result<(), Refusal>,
    /// Whether only its owner and admins see it.
    pub is_private: bool,
    /// Shows it in the job that the API answers.
    pub show: fn(&JobSpec, &gpool_model::Job, &mut Job),
}

/// Fields that are said together in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The field alone.
    Own,
    /// What the job runs.
    Program,
    /// How many tasks it has, and where.
    Tasks,
    /// Elements of an array and their values.
    Array,
    /// The environment, which is merged variable by variable where it becomes bytes.
    Environment,
}

impl Field {
    /// Whether an edit can change it.
    #[must_use]
    pub fn is_editable(&self) -> bool {
        EDITS.iter().any(|edit| edit.key == self.key)
    }
}

/// Returns the field with that name in JSON.
#[must_use]
pub fn field(key: &str) -> Option<&'static Field> {
    fields().find(|field| field.key == key)
}

impl JobCreate {
    /// Takes from `defaults`, the first line of a bulk submission, what this line does not say.
    pub fn fill_from(&mut self, defaults: &Self) {
        let said: Vec<Group> =
            fields().filter(|it| (it.is_said)(self)).map(|it| it.group).collect();
        for field in fields() {
            let is_open = match field.group {
                Group::Own => !(field.is_said)(self),
                Group::Environment => false,
                group => !said.contains(&group),
            };
            if is_open {
                (field.take)(self, defaults);
            }
        }
    }

    /// Takes from flags of a layer below what is not said here. Lists that add up are joined, the
    /// lower layer first, so that the upper one wins where an entry is repeated.
    #[must_use]
    pub fn over(mut self, mut below: Self) -> Self {
        // The place of its tasks is said in one way or the other.
        if self.tasks.is_some() {
            (below.nodes, below.tasks_per_node) = (None, None);
        } else if self.nodes.is_some() || self.tasks_per_node.is_some() {
            below.tasks = None;
        }
        for field in fields() {
            match field.join {
                Some(join) => join(&mut self, &below),
                None if !(field.is_said)(&self) => (field.take)(&mut self, &below),
                None => {}
            }
        }
        self
    }
}
