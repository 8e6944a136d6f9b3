//! Utilization of devices and jobs over time, in one SQLite file of its own. The scheduler never
//! reads it: if the file is lost, only charts and reports lose their past.
//!
//! Time is an argument of every call. A writer calls [`History::append`] once a minute with all
//! values of that minute, and then [`History::maintain`]. Any thread reads through a [`Reader`].
//!
//! Values are integers with the resolution of their series, and each column of a block has its own
//! width in bits. The file has three tables:
//!
//! | table | contents |
//! | --- | --- |
//! | `recent` | minutes as they came, of hours that are not sealed yet |
//! | `block` | sealed: the minutes of an hour, the hours of a day, sums of an hour |
//! | `name` | names of devices, jobs, users and so on, as numbers |
//!
//! A value that was not measured is absent, never zero. If a minute is written twice, for example
//! after the clock moved back, the first value stays, and the second call only adds values that
//! were absent.

#![forbid(unsafe_code)]

mod block;
mod codec;
mod database;
mod error;
mod history;
mod keys;
mod names;
mod reader;
mod recent;
mod report;
mod seal;
mod series;
mod time;
mod totals;

pub use error::Error;
pub use history::{
    Appended, Batch, History, JobSample, Maintained, Refusal, Sample, Settings, Use,
};
pub use reader::{Chart, ChartLine, Point, Reader};
pub use report::{Dimension, ReportQuery, ReportRow, UNMANAGED};
pub use series::{DeviceSeries, JobSeries, Scale};
pub use time::{Minute, Span, Step};
pub use totals::Totals;

/// The encoding of columns, for the tests.
#[doc(hidden)]
pub mod testing {
    pub use crate::codec::{close, open, put_column, put_varint, take_column};
}
