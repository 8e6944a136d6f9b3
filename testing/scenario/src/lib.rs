//! Converts between scenarios, a few lines of text, and worlds and plans, and generates random
//! ones: the form of the scheduling core in tests, bug reports and dumps.
//!
//! ```text
//! policy  preset users  escalate 24h  strategy sequential
//! node lab1  2 x h100-80g + 2 x a100-40g  cpus 32  mem 256G  tasks 64  label rack=3
//! link lab1[0,1]  nvlink 4
//! gpu  lab1[3]  unmanaged by ana
//! job  a  1       running lab1[0] 2h
//! job  b  h100:1  pending 10m  priority 5  cpus 4  mem 20G  limit 1h
//! job  c  1 x 3   pending
//! job  d  1       waiting  after a
//! job  h  2 nodes 2 each 1  pending
//! job  e  1       held by admin
//! job  k  1       pending  on lab[1-2]  not-on lab3  where rack=3|ssd
//! job  f  1       waiting  begin 3h  deadline 8h  limit 1h
//! job  s  0.5     running lab1[0]
//! job  g  1       pending  array 0-9%2  ended failed:0/succeeded:2
//! element  g 1    running lab1[1] 5m
//! guest    s      lab1[2]
//! cap      all  running 2  gpus 4
//! reserve  r1  lab1[0,1]  for uid 1001  in 2h  long 4h  every 7d
//! drain    lab1[2]  by 3h  requeue
//! past     train-  20m,25m,1h
//! used     12.5  uid 1001
//! project  red  in lab  gpus 4  limit 8  weight 2  cpus 64  mem-limit 512G
//! ```
//!
//! A job is pending, waiting, held, starting, claiming (it waits for victims to leave its devices),
//! running, pausing, paused, resuming (paused and claiming), stopping or requeuing (then pending
//! again). With the suffix `-paused`, a stopping or requeuing job holds only the resources of a
//! paused one.
//!
//! A line describes a policy, a node, devices of a node that are linked or not usable, jobs, a job
//! that is on a device that it did not book, a reservation or drain, the caps of users, earlier run
//! times of one kind of jobs, or the quotas of a project. Omitted values have defaults: a node has
//! plenty of cores and memory, a job requests none. Lines that start with `#` are comments. An
//! unknown word is refused with its line and column.

#![forbid(unsafe_code)]

mod amount;
mod answer;
mod array;
mod caps;
mod chosen;
mod gang;
#[cfg(feature = "generate")]
mod generate;
mod guest;
mod nodes;
mod parse;
mod past;
mod phase;
mod policy;
mod print;
mod project;
mod reader;
mod reason;
mod reserve;
mod reserve_step;
mod situation;
mod stream;
mod used;
mod words;

pub use answer::{answer, plan_text, reasons};
#[cfg(feature = "generate")]
pub use generate::{Case, cases, cases_of_las, config, situations, steps};
pub use reason::reason_text;
pub use reserve_step::ReserveSeed;
pub use situation::Situation;
pub use stream::{Cluster, DeviceChange, JobSeed, Step};
pub use words::ScenarioError;

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::words::Words;
}
