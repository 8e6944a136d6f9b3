//! Failpoints: named points at which a test kills the program, makes it slow or stops it.
//!
//! With the feature `failpoints` this is the crate `fail`. Without it, a point is nothing, and
//! neither `fail` nor the random numbers that it needs are part of the program.

#[cfg(feature = "failpoints")]
pub use fail::{FailScenario, cfg, cfg_callback, fail_point};

/// Nothing, because the feature `failpoints` is off.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! fail_point {
    ($($point:tt)*) => {{}};
}
