//! The table of job request fields: how each field is written as a flag, how requests merge in
//! layers, and how the field sets [`JobRequest`].
//!
//! The flags of `gpool submit`, its environment variables and directives, JSON lines and the API
//! all use this table. [`crate::JobCreate`] holds the values as they were written.

use gpool_model::request::edit::EDITS;
use gpool_model::{JobRequest, JobSpec, Refusal};

use crate::create::JobCreate;

mod flag;
mod rows;
pub mod validate;
mod value;

pub use flag::{Flag, Values, heading};
pub use rows::fields;
pub use value::Slot;

/// One field of a job request.
pub struct Field {
    /// Name in JSON.
    pub key: &'static str,
    /// The flag for this field, if there is exactly one.
    pub flag: Option<Flag>,
    /// Group of fields that a layer overrides together.
    pub group: Group,
    /// Whether the request sets the field.
    pub is_said: fn(&JobCreate) -> bool,
    /// Copies the value from a lower layer.
    pub take: fn(&mut JobCreate, &JobCreate),
    /// Prepends the list of a lower layer, for lists that merge.
    pub join: Option<fn(&mut JobCreate, &JobCreate)>,
    /// The slot of the value in a request.
    pub slot: fn(&mut JobCreate) -> Slot<'_>,
    /// Whether an edit can clear the field, with `null` or the word `none`.
    pub clears: bool,
    /// Checks the value and sets it in the request. One field checks a group of related fields.
    pub apply: fn(&JobCreate, &mut JobRequest) -> Result<(), Refusal>,
    /// Whether only the job's owner and admins see the field.
    pub is_private: bool,
    /// Label of the value on the page of a job, if it is shown there as it is.
    pub label: Option<&'static str>,
    /// Sets the field in the request that the API returns with a job, if it returns the field.
    pub show: Option<fn(&JobSpec, &gpool_model::Job, &mut JobCreate)>,
}

/// Groups of fields that a layer overrides together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// No group.
    Own,
    /// The program of the job.
    Program,
    /// Number and placement of tasks.
    Tasks,
    /// Array elements and their values.
    Array,
    /// The environment. It merges variable by variable when it is converted to bytes.
    Environment,
}

impl Field {
    /// Whether an edit can change the field.
    #[must_use]
    pub fn is_editable(&self) -> bool {
        EDITS.iter().any(|edit| edit.key == self.key)
    }
}

/// Returns the field with this name in JSON.
#[must_use]
pub fn field(key: &str) -> Option<&'static Field> {
    fields().find(|field| field.key == key)
}

impl JobCreate {
    /// Returns the values that a job's page shows as they are, with their labels.
    #[must_use]
    pub fn labeled(&self) -> Vec<(&'static str, String)> {
        let mut request = self.clone();
        let line = |field: &Field| {
            let text = serde_json::to_value((field.slot)(&mut request)).ok()?;
            Some((field.label?, value::text(&text)?))
        };
        fields().filter_map(line).collect()
    }

    /// Takes missing fields from `defaults`, the first line of a bulk submission.
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

    /// Takes missing fields from the flags of a lower layer. Lists that merge start with the lower
    /// layer, so that the upper layer wins for repeated entries.
    #[must_use]
    pub fn over(mut self, mut below: Self) -> Self {
        // Parts have shapes of their own.
        if !self.parts.is_empty() {
            (below.gpus, below.gpu_share, below.gpu_memory) = (None, None, None);
            (below.cpus, below.mem) = (None, None);
            (below.nodes, below.tasks_per_node, below.tasks) = (None, None, None);
        } else if self.nodes.is_some() || self.tasks.is_some() || self.gpus.is_some() {
            below.parts.clear();
        }
        // The placement of tasks is either `tasks` or the other two fields.
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
