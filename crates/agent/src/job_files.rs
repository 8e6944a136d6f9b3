//! Files that name the jobs of each GPU, for `--hpc-job-mapping-dir` of NVIDIA's dcgm-exporter: a
//! file for each GPU with jobs, named by its index, with one job ID per line.
//!
//! Source: dcgm-exporter 4.x, `internal/pkg/transformation/hpc.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gpool_model::device::Device;
use gpool_model::id::JobId;

use crate::assignments::Assignment;

/// The jobs of each GPU, by its index.
pub type JobsByGpu = BTreeMap<u32, BTreeSet<JobId>>;

pub struct JobFiles {
    folder: Option<PathBuf>,
    /// The content of the files; `None` before the first update.
    contents: Option<JobsByGpu>,
    is_failing: bool,
}

impl JobFiles {
    /// Writes into a folder, or nothing without one.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, contents: None, is_failing: false }
    }

    /// Makes the files match the present tasks.
    pub(crate) fn follow<'a>(
        &mut self,
        devices: &[Device],
        assignments: &(impl Iterator<Item = &'a Assignment> + Clone),
    ) {
        if self.folder.is_none() {
            return;
        }
        let mut jobs = JobsByGpu::new();
        for device in devices {
            let here = assignments.clone().filter(|it| it.limit_on(&device.uuid).is_some());
            // The exporter names a MIG instance by its parent.
            let index = device.gpu_index();
            for it in here {
                jobs.entry(index).or_default().insert(it.task.job);
            }
        }
        self.update(jobs);
    }

    /// Makes the files match; the first call also removes files of an earlier agent.
    pub fn update(&mut self, jobs: JobsByGpu) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.contents.as_ref() != Some(&jobs))
        else {
            return;
        };
        match write(folder, self.contents.as_ref(), &jobs) {
            Ok(()) => {
                self.contents = Some(jobs);
                self.is_failing = false;
            }
            Err(error) => {
                // A part may be written: the next attempt looks at the folder again.
                self.contents = None;
                // Once, not every second.
                if !std::mem::replace(&mut self.is_failing, true) {
                    let folder = folder.display();
                    let what = "can't write the jobs of GPUs for dcgm-exporter";
                    tracing::warn!(%error, %folder, "{what}");
                }
            }
        }
    }
}

fn write(folder: &Path, before: Option<&JobsByGpu>, jobs: &JobsByGpu) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let before: BTreeSet<u32> = match before {
        Some(before) => before.keys().copied().collect(),
        None => indexes(folder)?,
    };
    for index in before.iter().filter(|index| !jobs.contains_key(index)) {
        match std::fs::remove_file(folder.join(index.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    for (index, jobs) in jobs {
        // The exporter skips names that are no numbers, and so never reads half a file.
        let new = folder.join(format!(".{index}.new"));
        let mut options = std::fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&new)?;
        for job in jobs {
            writeln!(file, "{job}")?;
        }
        std::fs::rename(&new, folder.join(index.to_string()))?;
    }
    Ok(())
}

/// The GPUs with files.
fn indexes(folder: &Path) -> io::Result<BTreeSet<u32>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}
