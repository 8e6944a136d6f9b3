//! Builds the GPU request from its fields: GPU count, and share of each GPU.

use std::sync::Arc;

use gpool_model::enforcement::Enforcement;
use gpool_model::gpu::GpuRequest;
use gpool_model::share::ShareError;
use gpool_model::unit::Bytes;
use gpool_model::{Refusal, Share, parse};

use crate::amount::Quantity;
use crate::check::invalid;
use crate::create::JobCreate;

impl JobCreate {
    /// Returns the GPU request, and its text as the user wrote it.
    pub(crate) fn gpu_request(&self) -> Result<(GpuRequest, Arc<str>), Refusal> {
        let (gpus, written) = self.gpus_and_share()?;
        let Some(level) = &self.enforce else { return Ok((gpus, written)) };
        let enforce =
            level.parse::<Enforcement>().map_err(|error| invalid("enforce", &error.to_string()))?;
        if gpus.is_none() && !enforce.is_booked() {
            return Err(invalid("enforce", "the job requests no GPU; set gpus too"));
        }
        Ok((GpuRequest { enforce, ..gpus }, written))
    }

    fn gpus_and_share(&self) -> Result<(GpuRequest, Arc<str>), Refusal> {
        let written = self.gpus.as_deref().unwrap_or("0");
        let gpus =
            GpuRequest::parse(written).map_err(|error| invalid("gpus", &error.to_string()))?;
        let (field, share) = match (&self.gpu_share, &self.gpu_memory) {
            (None, None) => return Ok((gpus, Arc::from(written))),
            (Some(_), Some(_)) => {
                let why = "gpu_share also sets a fraction of each GPU; leave one of them out";
                return Err(invalid("gpu_memory", why));
            }
            (Some(share), None) => ("gpu_share", part(share)?),
            (None, Some(memory)) => ("gpu_memory", memory_of(memory)?),
        };
        if self.gpus.is_some() && gpus.is_none() {
            return Err(invalid(field, "gpus is 0; a fraction needs at least one GPU"));
        }
        let why =
            format!("gpus is {written}, which already sets a fraction; leave one of them out");
        let gpus = gpus.shared(share).map_err(|error| match error {
            ShareError::OfInstance { .. } => invalid(field, &error.to_string()),
            _ => invalid(field, &why),
        })?;
        let written = Arc::from(gpus.to_string());
        Ok((gpus, written))
    }
}

fn part(written: &str) -> Result<Share, Refusal> {
    let bad = |why: &str| invalid("gpu_share", why);
    match Share::parse(written) {
        Ok(share @ Share::Part { .. }) => Ok(share),
        Ok(Share::Memory { .. }) => Err(bad("this is an amount of memory; set gpu_memory instead")),
        Err(error) => Err(bad(&error.to_string())),
    }
}

fn memory_of(written: &Quantity) -> Result<Share, Refusal> {
    let bad = |why: &str| invalid("gpu_memory", why);
    let share = match written {
        Quantity::Whole(bytes) => Share::memory(Bytes::new(*bytes)),
        Quantity::Decimal(_) => {
            return Err(bad("a number of bytes must be whole; for a unit write text: \"1.5G\""));
        }
        Quantity::Text(text) => match Share::parse(text) {
            Ok(share @ Share::Memory { .. }) => share,
            Err(error) if text.contains(':') => return Err(bad(&error.to_string())),
            // A number without a unit counts bytes.
            Ok(Share::Part { .. }) | Err(_) => {
                Share::memory(parse::bytes(text).map_err(|error| bad(&error.to_string()))?)
            }
        },
    };
    if share == Share::memory(Bytes::ZERO) {
        return Err(bad("a fraction of a GPU must be more than 0; leave it out for whole GPUs"));
    }
    Ok(share)
}
