//! Fair share: the division of the capacity over the tree of projects, and the rule for reclaiming
//! between projects. Whole numbers only; a comment says where a number is rounded.
//!
//! A [`Division`] divides one resource kind. A [`Ledger`] has the resulting shares of all kinds
//! beside the usage, for the rules that need several kinds at once.

mod claimant;
mod division;
mod ledger;
mod loan;
mod ratio;
mod reclaim;
mod tree;

pub mod fair;

pub use claimant::{Claimant, Cut, Feedback, cut, groups};
pub use division::{Division, LeafRequest, Method};
pub use ledger::{Account, Ledger};
pub use loan::mark_loans;
pub use ratio::{Ratio, by_parts};
pub use reclaim::{Denied, Reclaimer, Victim, check, gate};
pub use tree::{Member, Tree, TreeIx};

/// Memory for divisions, kept between calls so that none allocates.
#[derive(Debug, Default)]
pub struct Buffers {
    askers: Vec<fair::Asker>,
    before: Vec<u64>,
}
