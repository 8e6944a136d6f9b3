//! How much one user may have, and has.

use gpool_model::policy::{Caps, Held};
use gpool_model::unit::MilliGpu;
use gpool_model::{Refusal, parse};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::check::invalid;
use crate::node::cores;

/// What one user has and may have; a cap that is `null` is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserLimits {
    /// The user's name; `all` for users that have no caps of their own.
    pub user: String,
    /// Whether the caps are this user's own.
    pub own: bool,
    /// Most jobs that hold something at once.
    pub running_jobs: Option<u64>,
    /// Most jobs that wait at once.
    pub pending_jobs: Option<u64>,
    /// Most GPUs at once.
    pub gpus: Option<f64>,
    /// How many jobs hold something.
    pub n_running: u64,
    /// How many jobs wait.
    pub n_pending: u64,
    /// How many GPUs are held.
    pub n_gpus: f64,
}

impl UserLimits {
    /// What is shown of a user.
    #[must_use]
    pub fn new(user: &str, own: bool, caps: Caps, held: Held, n_pending: u64) -> Self {
        Self {
            user: user.to_owned(),
            own,
            running_jobs: caps.running_jobs,
            pending_jobs: caps.pending_jobs,
            gpus: caps.gpus.map(|gpus| cores(gpus.get())),
            n_running: held.jobs,
            n_pending,
            n_gpus: cores(held.gpus.get()),
        }
    }
}

/// Changes to what a user may have; what is absent stays, `null` takes a cap away.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserCapsPatch {
    /// Most jobs that hold something at once.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<u64>)]
    pub running_jobs: Option<Option<u64>>,
    /// Most jobs that wait at once.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<u64>)]
    pub pending_jobs: Option<Option<u64>>,
    /// Most GPUs at once, with decimals.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Written>)]
    pub gpus: Option<Option<Written>>,
}

impl UserCapsPatch {
    /// The caps as they are to be.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if nothing is changed, or GPUs are no number.
    pub fn applied_to(&self, caps: Caps) -> Result<Caps, Refusal> {
        if *self == Self::default() {
            return Err(invalid("caps", "it changes nothing; say, for example, {\"gpus\": 2}"));
        }
        // Thousandths of one thing are read as those of another.
        let read = |written: &Written| match parse::cpus(&written.to_string()) {
            Ok(milli) => Ok(MilliGpu::new(milli.get())),
            Err(_) => Err(invalid("gpus", &format!("{written} is no number of GPUs; write 2"))),
        };
        let gpus = match &self.gpus {
            None => caps.gpus,
            Some(gpus) => gpus.as_ref().map(read).transpose()?,
        };
        Ok(Caps {
            running_jobs: self.running_jobs.unwrap_or(caps.running_jobs),
            pending_jobs: self.pending_jobs.unwrap_or(caps.pending_jobs),
            gpus,
        })
    }
}

/// Tells `null` from absent.
fn twice<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}
