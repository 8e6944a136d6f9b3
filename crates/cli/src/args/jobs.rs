//! The jobs that a verb acts on.

use clap::Args;

use super::values::{References, references};
use crate::reference::Reference;

/// The jobs that a verb acts on.
#[derive(Debug, Clone, Args)]
pub struct Jobs {
    /// Jobs, e.g. 1842, 1842.3-7, 10-20, 1,2,3, a name, @ (your newest), all (your jobs)
    #[arg(required = true, value_name = "JOB", value_parser = references)]
    pub jobs: Vec<References>,
    /// User that the word all refers to, or all for every user
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
}

impl Jobs {
    /// The references, in the order given.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.jobs.iter().flat_map(|list| &list.0)
    }
}
