//! The contexts of the process, and the current one of each thread.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::code::{Code, INVALID_CONTEXT};
use crate::driver::Session;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) ordinal: i32,
    /// Users of a primary context; 0 for others.
    pub(crate) n_retained: u32,
}

thread_local! {
    pub(crate) static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// By handle. Primary contexts have the device's number + 1.
static CONTEXTS: Mutex<BTreeMap<u64, Context>> = Mutex::new(BTreeMap::new());

pub(crate) fn contexts() -> MutexGuard<'static, BTreeMap<u64, Context>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device number of the current context.
pub(crate) fn current() -> Result<i32, Code> {
    let contexts = contexts();
    contexts.get(&CURRENT.get()).map(|context| context.ordinal).ok_or(INVALID_CONTEXT)
}

/// The handle of the current context.
pub(crate) fn current_context() -> u64 {
    CURRENT.get()
}

/// The device of the current context, as in the state file.
pub(crate) fn current_device(session: &Session) -> Result<usize, Code> {
    session.device(current()?)
}
