//! The score of a placement: how much of a node would stay idle once it has been filled with
//! expected tasks. Whole numbers only, without jobs and nodes: the scheduler and the replay of
//! traces place by it.
//!
//! [`FreePart`] is the free part of a node and [`TaskDemand`] the demand of a task. A [`Mix`] has
//! the expected tasks, a [`Rollout`] fills nodes with them, a [`Reserve`] keeps nodes for tasks of
//! several devices. [`Scores`] keeps the results for the [`Parts`] that nodes have free.
//!
//! Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, for the measure by a mix of
//! tasks.

mod free_part;
mod mix;
mod parts;
mod reserve;
mod rollout;
mod scores;

pub use free_part::{FreePart, TaskDemand, WHOLE};
pub use mix::{Mix, Weighed};
pub use parts::Parts;
pub use reserve::Reserve;
pub use rollout::{Rollout, RolloutRule, splitmix};
pub use scores::{Scores, Worth};
