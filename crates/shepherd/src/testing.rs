//! Internals for the tests of this crate, in `tests/it`.

pub use crate::activation::{Variables, apply, wrap};
pub use crate::environment::{Surroundings, environment, fill_in, output_file};
pub use crate::message::{Cap, Element, GpuMemory, ToShepherd, line, take_lines};
pub use crate::record::{Claim, ClaimFile, ClaimRecord, Claimant};
pub use crate::rendezvous::TaskPosition;
pub use crate::shepherd::files::make_output;
pub use crate::shepherd::metrics::Metrics;
pub use crate::shepherd::output::{Order, OutputWriter, Progress, Stream, Target};
pub use crate::shepherd::terminal::{REMEMBERED, Terminal, open};
