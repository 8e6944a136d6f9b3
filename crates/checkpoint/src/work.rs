//! The work of a keeper or helper process.

use crate::call::{Call, CallError, CallOutcome, Request};
use crate::driver::Driver;
use crate::host::Host;
use crate::look::look;
use crate::pause::pause;
use crate::plan::{Aim, Plan, Say, Work, print};
use crate::probe::here;
use crate::resume::{NotResumed, release, resume};

/// Does the work that the argument describes, in JSON, and prints lines of JSON. Returns the exit
/// code.
#[must_use]
pub fn main(argument: Option<&str>) -> u8 {
    match argument.and_then(|text| serde_json::from_str(text).ok()) {
        Some(Work::Call(request)) => {
            print(&answer(&request));
            0
        }
        Some(Work::Plan(plan)) => {
            print(&carry_out(&plan));
            0
        }
        None => 2,
    }
}

/// Makes the call in this process.
fn answer(request: &Request) -> CallOutcome {
    let done = |result: Result<(), CallError>| match result {
        Ok(()) => CallOutcome::Done,
        Err(error) => CallOutcome::Failed(error),
    };
    let driver = |call: &dyn Fn(&Driver) -> Result<(), CallError>| {
        done(Driver::open(&request.cuda).and_then(|driver| call(&driver)))
    };
    match &request.call {
        Call::Probe => CallOutcome::Probed(here(request)),
        Call::Look(devices) => {
            look(&request.nvml, devices).map_or_else(CallOutcome::Failed, CallOutcome::Looked)
        }
        Call::State(pid) => Driver::open(&request.cuda)
            .and_then(|driver| driver.state(*pid))
            .map_or_else(CallOutcome::Failed, CallOutcome::State),
        Call::Lock { pid, timeout_ms } => driver(&|it| it.lock(*pid, *timeout_ms)),
        Call::Checkpoint(pid) => driver(&|it| it.checkpoint(*pid)),
        Call::Restore { pid, pairs } => driver(&|it| it.restore(*pid, pairs)),
        Call::TryRoom(devices) => {
            driver(&|it| devices.iter().try_for_each(|(uuid, bytes)| it.try_room(uuid, *bytes)))
        }
        Call::Unlock(pid) => driver(&|it| it.unlock(*pid)),
    }
}

/// Carries out a plan in this process, and returns the last message.
fn carry_out(plan: &Plan) -> Say {
    let mut host = Host::new(plan);
    match plan.aim {
        Aim::Pause => match pause(&mut host, plan) {
            Ok(held) => Say::Paused(held),
            Err(not) => Say::NotPaused { why: not.why, is_lost: not.is_lost },
        },
        Aim::Resume => match resume(&mut host, plan) {
            Ok(()) => Say::Resumed,
            Err(NotResumed::Lost(why)) => Say::Lost(why),
            Err(NotResumed::NotMoved { why, held }) => Say::NotMoved { why, held },
        },
        Aim::Release => Say::Released { why: release(&mut host, plan).err() },
    }
}
