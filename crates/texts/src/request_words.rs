//! Texts for GPU requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::enforcement::Enforcement;
use gpool_model::gpu::{GpuAmount, GpuRequest};
use gpool_model::{JobId, NodeName, ProjectName, Share};

/// Returns `GPU` or `GPUs`.
pub fn gpus(count: u32) -> &'static str {
    if count == 1 { "GPU" } else { "GPUs" }
}

/// Returns the noun for devices: GPUs or MIG instances.
pub fn devices(count: u32, of_instances: bool) -> &'static str {
    match (of_instances, count) {
        (false, _) => gpus(count),
        (true, 1) => "MIG instance",
        (true, _) => "MIG instances",
    }
}

/// Describes a request: `16 × H100`, `2 GPUs of at least 40 GiB`.
#[must_use]
pub fn request_words(asked: &GpuRequest) -> String {
    match asked.enforce {
        Enforcement::Booked => kind_words(asked),
        level => {
            format!("{} with enforcement {level:?}", kind_words(asked), level = level.as_str())
        }
    }
}

/// Describes a request without its enforcement.
fn kind_words(asked: &GpuRequest) -> String {
    let count = asked.n_devices();
    if let Some(share) = asked.share() {
        if count == 1 && asked.models.is_empty() {
            return share_words(share);
        }
        let whole = GpuRequest { amount: GpuAmount::Whole(count), ..asked.clone() };
        return format!("{} of each of {}", share_part(share), kind_words(&whole));
    }
    if let Some(least) = asked.least_memory {
        return format!("{count} {} of at least {least}", gpus(count));
    }
    if asked.models.is_empty() {
        return format!("{count} {}", gpus(count));
    }
    format!("{count} × {}", models_words(asked))
}

/// Describes the guaranteed part of a fraction: `0.5 of a GPU`, `20 GiB of a GPU`.
pub fn share_words(share: Share) -> String {
    format!("{} of a GPU", share_part(share))
}

/// Returns a share as users write it.
pub fn share_part(share: Share) -> String {
    match share {
        Share::Part { request, .. } => Share::part(request).to_string(),
        Share::Memory { request, .. } => request.to_string(),
    }
}

/// Describes the models of a request: `A100 or H100`.
pub fn models_words(asked: &GpuRequest) -> String {
    // MIG profiles are lowercase.
    let models = asked.models.iter().map(|model| match model.names_instance() {
        true => model.as_str().to_owned(),
        false => model.as_str().to_ascii_uppercase(),
    });
    models.collect::<Vec<_>>().join(" or ")
}

/// Describes the victims, their user and project, and the GPUs that they release: `job 5 of bo
/// (project red) has released GPUs 0,1 of lab1`.
pub fn releases(
    (job, n_jobs): (JobId, u64),
    of: Option<&(Arc<str>, ProjectName)>,
    devices: &[(NodeName, u32)],
) -> String {
    let owner = of.map(|(user, project)| format!(" of {user} (project {project})"));
    let owner = owner.unwrap_or_default();
    let victims = match n_jobs {
        0 | 1 => format!("job {job}{owner} has"),
        n => format!("{n} jobs, such as job {job}{owner}, have"),
    };
    if devices.is_empty() {
        return format!("{victims} released it");
    }
    let mut by_node = BTreeMap::<&NodeName, Vec<String>>::new();
    for (node, index) in devices {
        by_node.entry(node).or_default().push(index.to_string());
    }
    let of_node = |(node, all): (&NodeName, Vec<String>)| {
        let noun = if all.len() == 1 { "GPU" } else { "GPUs" };
        format!("{noun} {} of {node}", all.join(","))
    };
    let all: Vec<String> = by_node.into_iter().map(of_node).collect();
    format!("{victims} released {}", all.join(", "))
}
