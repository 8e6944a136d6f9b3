//! What each project may have: the division of what there is over the tree of projects, and what
//! one project may take back from another for it. Whole numbers only; nothing is rounded except
//! where it says so.
//!
//! A kind of resource is divided by itself, in a [`Division`]. What comes out stands in a
//! [`Ledger`] beside what is held, for the rules that look at several kinds at once.

mod claimant;
mod division;
mod ledger;
mod loan;
mod ratio;
mod reclaim;
mod tree;

pub mod fair;

pub use claimant::{Claimant, Cut, Feedback, cut, groups};
pub use division::{Ask, Division, Method};
pub use ledger::{Account, Ledger};
pub use loan::mark_loans;
pub use ratio::Ratio;
pub use reclaim::{Denied, Multiplier, Reclaim, Reclaimer, Victim};
pub use tree::{Member, NotATree, Row, Tree};

/// What a division works in; kept between calls so that none allocates.
#[derive(Debug, Default)]
pub struct Buffers {
    askers: Vec<fair::Asker>,
    before: Vec<u64>,
}
