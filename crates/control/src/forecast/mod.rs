//! Forecasts when waiting jobs will start, and what would let them start sooner. The state machine
//! itself runs forward over an excerpt of the world, in virtual time, with the expected ends of
//! jobs: once early, once at the median, once late. So the same code decides here as in the
//! cluster, and nothing here changes the cluster.
//!
//! It reads nothing but its arguments, and its work is bounded by counts.

mod calibrator;
mod compare;
mod course;
mod estimate;
mod length;
mod outlook;
mod part;
mod whatif;

pub use calibrator::{Bucket, Calibrator, FirstForecast};
pub use compare::{Moved, middle_starts, moved};
pub use estimate::{Delay, Estimate, Forecast, FreedBy, Imagined, estimate, forecast, imagine};
pub use length::{Length, LengthSource, Pace};
pub use outlook::{Fate, Otherwise, Outlook, outlook};
pub use part::ForecastInput;
pub use whatif::{Requester, Tried, alternatives};

use gpool_model::Millis;

pub const HORIZON: Millis = Millis::from_hours(48);
/// The largest number of pending jobs in a forecast: the first ones in queue order.
pub const JOBS_MAX: usize = 2_000;
/// The least gain that makes a change worthwhile.
pub const WORTHWHILE: Millis = Millis::from_mins(1);
