//! The jobs that a verb is for.

use clap::Args;

use super::values::{References, references};
use crate::reference::Reference;

/// The jobs that a verb is for.
#[derive(Debug, Clone, Args)]
pub struct Jobs {
    /// Jobs: 1842, 1842.3-7, 1842#2, 10-20, 1,2,3, a name, @ (my newest), @~2, all (mine)
    #[arg(required = true, value_name = "JOB", value_parser = references)]
    pub jobs: Vec<References>,
    /// With `all`: the jobs of this user, or `all` users
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
}

impl Jobs {
    /// The references, in the order given.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.jobs.iter().flat_map(|list| &list.0)
    }
}
