//! Which node a task goes to so that what is left of it is of use to those who come next: what is
//! idle and of no use is a *fragment*. What the next tasks ask is taken from a mix of known ones.
//!
//! Nodes of which the same is left are one [`Left`], and what a task would do to it is worked out
//! once, however many nodes there are.
//!
//! Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
//! Fragmentation Gradient Descent", USENIX ATC 2023, for the fragments and for [`Rule::Fgd`].

mod evacuate;
mod fgd;
mod left;
mod mix;
mod packer;
mod reserve;
mod rollout;

pub use left::{Ask, Left, WHOLE};
pub use mix::{Mix, Weighed};
pub use packer::{Move, NodeNo, Packer, Placed, Rule};
pub(crate) use reserve::Reserve;
pub(crate) use rollout::Rollout;
pub use rollout::RolloutRule;
