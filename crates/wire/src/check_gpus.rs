//! Builds the GPU request from its fields: GPU count, and share of each GPU.

use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::share::ShareError;
use gpool_model::unit::Bytes;
use gpool_model::{Refusal, Share, parse};

use crate::amount::Written;
use crate::check::invalid;
use crate::create::JobCreate;

impl JobCreate {
    /// Returns the GPU request, and its text as the user wrote it.
    pub(crate) fn gpu_request(&self) -> Result<(GpuRequest, Arc<str>), Refusal> {
        let written = self.gpus.as_deref().unwrap_or("0");
        let gpus =
            GpuRequest::parse(written).map_err(|error| invalid("gpus", &error.to_string()))?;
        let (field, share) = match (&self.gpu_share, &self.gpu_memory) {
            (None, None) => return Ok((gpus, Arc::from(written))),
            (Some(_), Some(_)) => {
                let why = "the job says how much of a GPU by gpu_share too; say one of them";
                return Err(invalid("gpu_memory", why));
            }
            (Some(share), None) => ("gpu_share", part(share)?),
            (None, Some(memory)) => ("gpu_memory", Share::Memory(memory_of(memory)?)),
        };
        if self.gpus.is_some() && gpus.is_none() {
            return Err(invalid(field, "gpus is 0, and a part is one of at least one GPU"));
        }
        let why = format!("gpus is {written} and says how much of a GPU already");
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
        Ok(share @ Share::Part(_)) => Ok(share),
        Ok(Share::Memory(_)) => Err(bad("it is memory; that is what gpu_memory is for")),
        Err(error) => Err(bad(&error.to_string())),
    }
}

fn memory_of(written: &Written) -> Result<Bytes, Refusal> {
    let bad = |why: &str| invalid("gpu_memory", why);
    let memory = match written {
        Written::Whole(bytes) => Bytes::new(*bytes),
        Written::Decimal(_) => {
            return Err(bad("a number counts bytes and is whole; or write text: \"1.5G\""));
        }
        Written::Text(text) => match Share::parse(text) {
            Ok(Share::Memory(memory)) => memory,
            Err(error) if text.contains(':') => return Err(bad(&error.to_string())),
            Ok(Share::Part(_)) | Err(_) => {
                parse::bytes(text).map_err(|error| bad(&error.to_string()))?
            }
        },
    };
    if memory.is_zero() {
        return Err(bad("0 is no part of a GPU; leave it out for whole GPUs"));
    }
    Ok(memory)
}
