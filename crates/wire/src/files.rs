//! Working folders and results of jobs, which travel as objects.

use gpool_model::{FileRequest, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::check::{invalid, plain_line};
use crate::create::JobCreate;

/// The most objects in one question.
pub const OBJECTS_MAX: usize = 4096;
/// The most patterns of one job, and the most characters of each.
const PATTERNS_MAX: (usize, usize) = (64, 1024);

/// Objects that a client is about to send, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"objects": []}))]
pub struct ObjectsQuery {
    /// Names of at most 4096 objects: 64 hexadecimal digits of their BLAKE3 hash.
    pub objects: Vec<String>,
}

/// The objects that the server lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingObjects {
    /// Those of the question that the caller has not sent yet, or not for some time.
    pub missing: Vec<String>,
    /// Most bytes of one working folder (`upload_max` in `gpool.toml`).
    pub upload_max: u64,
}

/// The objects that were stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredObjects {
    /// Their names, in the order of the request.
    pub stored: Vec<String>,
}

/// The results of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobResults {
    /// The results of each task, by rank.
    pub results: Vec<TaskResults>,
    /// Nodes that have not sent their results yet.
    pub pending: Vec<String>,
}

/// The results of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskResults {
    /// Number of the task in its gang, from 0.
    pub rank: u32,
    /// Attempt with these results.
    pub attempt: u32,
    /// Name of the object that lists the files.
    pub manifest: String,
    /// Number of files.
    pub n_files: usize,
    /// Bytes of all files.
    pub size: u64,
    /// Paths that match but were not taken, with the reasons.
    pub left_out: Vec<String>,
}

/// Query parameter for one object of a job's results.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ObjectParams {
    /// Name of the object. Default: the list of files of the first task.
    #[serde(default)]
    pub object: Option<String>,
}

/// Reads the files that a job asks for.
///
/// # Errors
/// [`Refusal::Invalid`] for a name of no object, or for a pattern that leaves the folder.
pub(crate) fn request(job: &JobCreate) -> Result<FileRequest, Refusal> {
    if let Some(name) = &job.upload {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if name.len() != 64 || !name.bytes().all(is_digit) {
            let why = "it is the name of an object: 64 of 0-9 and a-f; gpool submit --upload DIR \
                       sends a folder and sets it";
            return Err(invalid("upload", why));
        }
    }
    if job.setup.is_some() && (job.upload.is_some() || !job.download.is_empty()) {
        let why = "it would run in a folder of its own; leave setup out, and begin the command \
                   with it";
        return Err(invalid("setup", why));
    }
    let (n_most, length) = PATTERNS_MAX;
    if job.download.len() > n_most {
        return Err(invalid("download", &format!("there are more than {n_most} paths")));
    }
    for pattern in &job.download {
        plain_line("download", pattern, length)?;
        check_pattern(pattern).map_err(|why| invalid("download", &why))?;
    }
    let upload = job.upload.as_deref().map(Box::from);
    Ok(FileRequest { upload, download: job.download.clone() })
}

/// Checks that a pattern of results stays in the working folder.
///
/// # Errors
/// The sentence says why not.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    let path = pattern.strip_prefix("./").unwrap_or(pattern);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path == "." {
        return Ok(());
    }
    if pattern.starts_with('/') {
        return Err(format!("{pattern:?} must be relative to the working folder: out/*.csv"));
    }
    if path.split('/').any(|name| ["", ".", ".."].contains(&name)) {
        return Err(format!("{pattern:?} may not have empty names, . or .. in it"));
    }
    Ok(())
}
