//! What a caller sees of a trace while it is played.

use gpool_model::Timestamp;

/// A callback before each event. It gets the number of jobs that were submitted and have not
/// ended, and the time of the event.
pub type Look<'a> = dyn FnMut(usize, Timestamp) + 'a;
