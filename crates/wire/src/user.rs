//! Usage and caps of users.

use gpool_model::policy::{Caps, UserHoldings};
use gpool_model::unit::MilliGpu;
use gpool_model::{Refusal, parse};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::check::invalid;
use gpool_texts::words::cores;

/// Usage and caps of one user. A cap is `null` if not set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserLimits {
    /// Name of the user; `all` for users without their own caps.
    pub user: String,
    /// Whether the caps are set for this user.
    pub own: bool,
    /// Maximum number of jobs with allocations.
    pub running_jobs: Option<u64>,
    /// Maximum number of waiting jobs.
    pub pending_jobs: Option<u64>,
    /// Maximum number of GPUs.
    pub gpus: Option<f64>,
    /// Number of jobs with allocations.
    pub n_running: u64,
    /// Number of waiting jobs.
    pub n_pending: u64,
    /// Number of allocated GPUs.
    pub n_gpus: f64,
}

impl UserLimits {
    /// Returns a user for the API.
    #[must_use]
    pub fn new(user: &str, own: bool, caps: Caps, held: UserHoldings, n_pending: u64) -> Self {
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

/// Changes to a user's caps. Omitted caps keep their values, `null` removes a cap.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserCapsPatch {
    /// Maximum number of jobs with allocations.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<u64>)]
    pub running_jobs: Option<Option<u64>>,
    /// Maximum number of waiting jobs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<u64>)]
    pub pending_jobs: Option<Option<u64>>,
    /// Maximum number of GPUs, with decimals.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Quantity>)]
    pub gpus: Option<Option<Quantity>>,
}

impl UserCapsPatch {
    /// Returns the caps after the changes.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if nothing changes, or the number of GPUs is invalid.
    pub fn applied_to(&self, caps: Caps) -> Result<Caps, Refusal> {
        if *self == Self::default() {
            return Err(invalid(
                "caps",
                "it changes nothing; give a limit, for example {\"gpus\": 2}",
            ));
        }
        // Both types count thousandths.
        let read = |written: &Quantity| match parse::cpus(&written.to_string()) {
            Ok(milli) => Ok(MilliGpu::new(milli.get())),
            Err(_) => Err(invalid("gpus", &format!("{written} is not a number of GPUs; write 2"))),
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

/// Distinguishes `null` from an absent value.
fn twice<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}
