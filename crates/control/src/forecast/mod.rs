//! When waiting jobs will likely start, and what would let them start sooner. The same state
//! machine is run forward over an excerpt of the world, in virtual time, over the ends that jobs
//! are expected to have: once as early as such jobs end, once in the middle, once as late. So
//! whatever decides about jobs decides here too, and nothing here changes the cluster.
//!
//! It looks at nothing but what it is given, and its work is bounded by counts.

mod compare;
mod course;
mod estimate;
mod learnt;
mod length;
mod outlook;
mod part;
mod whatif;

pub use compare::{Moved, middle_starts, moved};
pub use estimate::{Delay, Estimate, Forecast, FreedBy, Imagined, estimate, forecast, imagine};
pub use learnt::{Bucket, Learnt, Told};
pub use length::{Length, Pace, Source};
pub use outlook::{Fate, Otherwise, Outlook, outlook};
pub use part::Part;
pub use whatif::{Tried, Whose, alternatives};

use gpool_model::Millis;

/// As far as is looked.
pub const HORIZON: Millis = Millis::from_hours(48);
/// So many jobs that wait for room are looked at, those that are considered first.
pub const JOBS_MAX: usize = 2_000;
/// A change that brings less than this is no gain.
pub const WORTHWHILE: Millis = Millis::from_mins(1);
