//! MIG instances: the list of them, and changes.

use std::time::Duration;

use gpool_model::mig_layout::{MigChange, MigError, MigReport};

use super::{Asker, LOOK};
use crate::division::check_processes;
use crate::facts::now;

/// How long a change of MIG instances may take: it takes seconds.
const DIVIDE: Duration = Duration::from_secs(20);

impl Asker {
    /// Lists the MIG instances, after a change if there is one. Jobs were ruled out before.
    pub(super) fn divide(&mut self, change: Option<&MigChange>) -> Result<MigReport, MigError> {
        let why = self.from.clone();
        let monitor = self.monitor.as_mut().ok_or(MigError::Driver { why })?;
        let Some(change) = change else { return monitor.divisions(DIVIDE) };
        check_processes(monitor, change, now(), LOOK)?;
        let changed = monitor.divide(change, DIVIDE);
        // Also after an error: a change without an answer in time may have been made.
        self.take_inventory();
        let created = changed?;
        let monitor = self.monitor.as_mut().ok_or(MigError::NoSuchDevice)?;
        Ok(MigReport { created, ..monitor.divisions(DIVIDE)? })
    }
}
