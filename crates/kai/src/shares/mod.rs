//! KAI's division of resources between projects, and its rule for reclaiming between them.

mod division;
mod level;
mod reclaim;

pub use division::Division;
pub use level::{Buffers, divide, over_quota};
pub use reclaim::{Multiplier, Reclaim};
