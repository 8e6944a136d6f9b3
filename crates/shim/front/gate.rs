//! The gate at which threads wait while the agent pauses the job.

use core::sync::atomic::Ordering::SeqCst;

use crate::driver::SUCCESS;
use crate::layout::{GATE_EMPTY, GATE_PAUSING, GATE_RELEASED, Grants};
use crate::{ask, kernel, page, process};

/// The longest time without a look at the gate.
const PATIENCE_MS: u64 = 1000;

/// Runs a synchronisation. A driver that has checkpointed the process would crash in it, so it
/// does not begin while the agent pauses the job, and the agent does not pause while it runs.
pub fn synchronize(call: impl FnOnce() -> u32) -> u32 {
    run_in_flight(call, |_, _| {
        wait(GATE_PAUSING);
        None
    })
}

/// Runs a query. Such a driver would crash here as well. Once the process is checkpointed all its
/// work has ended, so the answer is known: programs that poll do not need their devices back.
pub fn query(call: impl FnOnce() -> u32) -> u32 {
    run_in_flight(call, |grants, gate| {
        if gate & GATE_EMPTY != 0 {
            return Some(SUCCESS);
        }
        kernel::wait_for_change(&grants.gate, gate, PATIENCE_MS);
        None
    })
}

/// Runs a call that the agent must not interrupt. At a closed gate, `closed` waits for a change, or
/// answers in place of the driver.
fn run_in_flight(
    call: impl FnOnce() -> u32,
    closed: impl Fn(&Grants, u32) -> Option<u32>,
) -> u32 {
    let (Some(grants), Some(slot)) = (page::grants(), process::slot()) else { return call() };
    loop {
        // Counted first: either this thread sees the gate, or the agent sees the call.
        slot.in_flight.fetch_add(1, SeqCst);
        let gate = grants.gate.load(SeqCst);
        if gate & GATE_PAUSING == 0 {
            break;
        }
        slot.in_flight.fetch_sub(1, SeqCst);
        if let Some(answer) = closed(grants, gate) {
            return answer;
        }
    }
    let result = call();
    slot.in_flight.fetch_sub(1, SeqCst);
    result
}

/// Waits until the job has its devices.
pub fn wait_while_released() {
    if page::grants().is_some_and(|grants| grants.gate.load(SeqCst) & GATE_RELEASED != 0) {
        wait(GATE_RELEASED);
    }
}

/// Waits until none of these bits is set.
#[cold]
fn wait(bits: u32) {
    let Some(grants) = page::grants() else { return };
    let slot = process::slot();
    if let Some(slot) = slot {
        slot.waiting.fetch_add(1, SeqCst);
    }
    let mut has_asked = false;
    loop {
        let now = grants.gate.load(SeqCst);
        if now & bits == 0 {
            break;
        }
        if now & GATE_RELEASED != 0 && !has_asked {
            has_asked = true;
            ask::for_return();
        }
        kernel::wait_for_change(&grants.gate, now, PATIENCE_MS);
    }
    if let Some(slot) = slot {
        slot.waiting.fetch_sub(1, SeqCst);
    }
}
