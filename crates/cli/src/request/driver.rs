//! The request of a group that a job without GPU drives, such as a sweep or a map: a part for that
//! driver, and a part for the jobs that it submits.

use gpool_wire::{JobCreate, RetryPolicy};

/// Retries of a driver that died.
const RETRIES: u32 = 5;

impl super::Request {
    /// Takes what concerns the whole group out of the request, and returns it as the request of the
    /// driver, in the role `driver`. It has neither command nor environment. The rest is for the
    /// jobs of the group.
    pub fn take_driver(&mut self, group: &str) -> JobCreate {
        let job = &mut self.job;
        JobCreate {
            name: Some(format!("{group}-driver")),
            group: Some(format!("{group}/driver")),
            retry: Some(RetryPolicy {
                most: RETRIES,
                on: Vec::new(),
                exits: Vec::new(),
                backoff: None,
            }),
            project: job.project.clone(),
            directory: job.directory.clone(),
            umask: job.umask,
            origin: job.origin.clone(),
            // Messages and dependencies are those of the group, and not of each job.
            notify: std::mem::take(&mut job.notify),
            begin: job.begin.take(),
            after: std::mem::take(&mut job.after),
            after_one: std::mem::take(&mut job.after_one),
            hold: std::mem::take(&mut job.hold),
            note: job.note.take(),
            ..JobCreate::default()
        }
    }
}
