//! Files of other tools: dstack, SkyPilot, Kubernetes, docker-compose.

use gpool_import::{Import, Surroundings};

use crate::input::{are_shown, is_said, text};

/// A file is refused in a short message, or its commands can be printed.
pub fn check(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let variable = |name: &str| name.len().is_multiple_of(2).then(|| name.repeat(3));
    let surroundings = Surroundings { folder: "/home/ana", variable: &variable };
    match Import::read(text, &surroundings) {
        Ok(import) => {
            assert!(!import.jobs.is_empty(), "a file without jobs is refused");
            are_shown(&import.shell_script("file.yaml").replace('\t', " "));
            for (ix, job) in import.jobs.iter().enumerate() {
                assert!(!job.command.is_empty() && !job.name.is_empty(), "{job:?}");
                assert!(job.after.iter().all(|on| on.job_ix < ix), "{job:?}");
            }
        }
        Err(error) => is_said(&error.to_string()),
    }
}
