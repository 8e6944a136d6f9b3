//! Helper processes: each makes one call of the driver, and is killed at its deadline. The driver
//! completes an operation even if its caller is gone.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::call::{CallError, CallOutcome, Request};
use crate::plan::{ARGUMENT, Work};

/// How long a killed process may take to end. One that waits in the kernel ends later.
const END: Duration = Duration::from_secs(1);
/// Time between two looks at a killed process.
const STEP: Duration = Duration::from_millis(5);

/// Makes a call of the driver in a new process of `program`.
///
/// # Errors
/// If the call failed or has no result; the driver may still be working on it.
pub fn ask(
    program: &Path,
    request: &Request,
    deadline: Duration,
) -> Result<CallOutcome, CallError> {
    let work = Work::Call(request.clone());
    let text = serde_json::to_string(&work).expect("requests have string keys only");
    let failed = |why: String| CallError::Helper { why };
    let mut child = Command::new(program)
        .args([ARGUMENT, &text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("can't be started: {error}")))?;
    let said = read(&mut child, deadline);
    end(&mut child);
    let said = said.ok_or(CallError::Hung { seconds: deadline.as_secs() })?;
    match serde_json::from_slice(&said) {
        Ok(CallOutcome::Failed(error)) => Err(error),
        Ok(answer) => Ok(answer),
        Err(_) => Err(failed("ended without an answer".to_owned())),
    }
}

/// The output up to its end; `None` at the deadline.
fn read(child: &mut Child, deadline: Duration) -> Option<Vec<u8>> {
    let begin = Instant::now();
    let mut output = child.stdout.take()?;
    let mut said = Vec::new();
    loop {
        let left = Timespec::try_from(deadline.saturating_sub(begin.elapsed())).ok()?;
        let is_late = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) == Ok(0);
        if is_late || begin.elapsed() >= deadline {
            return None;
        }
        let mut buffer = [0; 4096];
        match output.read(&mut buffer) {
            Ok(0) => return Some(said),
            Ok(length) => said.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Some(said),
        }
    }
}

/// Kills the process, if it has not ended, and reaps it.
fn end(child: &mut Child) {
    let _ = child.kill();
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < END {
        std::thread::sleep(STEP);
    }
}
