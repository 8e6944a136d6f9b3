//! Rows of the tables, and the numbers that the indexes use for them.

use std::sync::Arc;

use gpool_model::{Job, JobSpec};

/// A row of the table of nodes: valid until a node is removed ([`World::remove_node`]).
///
/// [`World::remove_node`]: crate::World::remove_node
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIx(pub usize);

/// A job that has not ended.
#[derive(Debug, Clone)]
pub struct JobRow {
    pub spec: Arc<JobSpec>,
    /// Its present state.
    pub job: Job,
}

/// A row of the table of projects that have, or had, jobs or a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectIx(pub usize);

/// A row of the table of shapes; recycled when the last job of the shape leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeIx(pub usize);

/// A row of the table of fits; recycled with its last shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FitIx(pub usize);
