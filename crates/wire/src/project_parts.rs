//! Quotas by model and by pool: requests and answers.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::escape::repeated;
use gpool_model::{
    Amount, GpuRequest, MilliGpu, ModelPattern, Project, QuotaPatch, Refusal, ResourceKind, parse,
};

use crate::amount::Quantity;
use crate::check::{self, invalid};
use crate::project_amount::{in_thousandths, quota};

/// Amounts by model, or by pool.
pub type Parts = BTreeMap<String, Quantity>;

/// Reads quotas by model and pool, each with its field name and whether it is a limit.
///
/// # Errors
/// The first invalid quota.
pub(crate) fn patches(
    fields: [(&str, &Parts, bool); 4],
) -> Result<Vec<(ResourceKind, QuotaPatch)>, Refusal> {
    let mut patches = BTreeMap::<ResourceKind, QuotaPatch>::new();
    let mut seen = BTreeSet::new();
    for (field, parts, is_limit) in fields {
        for (name, written) in parts {
            let kind = match field.ends_with("_of") {
                true => ResourceKind::GpuModel(model(field, name)?),
                false => ResourceKind::GpuPool(pool(field, name)?),
            };
            let (written, read) =
                (Some(written.clone()), |text: &str| parse::gpus(text).map(MilliGpu::get));
            if !seen.insert((kind.clone(), is_limit)) {
                let why = format!("{:?} is given twice, in different spellings", repeated(name));
                return Err(invalid(field, &why));
            }
            let patch = patches.entry(kind).or_default();
            match is_limit {
                false => {
                    let said = quota((field, &written), (field, &None), read)?;
                    patch.guaranteed = said.guaranteed;
                }
                true => patch.limit = quota((field, &None), (field, &written), read)?.limit,
            }
        }
    }
    Ok(patches.into_iter().collect())
}

/// Reads a model name, as in `--gpus`.
fn model(field: &str, name: &str) -> Result<String, Refusal> {
    let request = GpuRequest::parse(name).ok().filter(|_| !name.contains([':', '@', '|']));
    let pattern =
        request.and_then(|it| it.models.first().map(ModelPattern::as_str).map(str::to_owned));
    let why = || format!("{:?} is not a GPU model; write h100, or a100-80g", repeated(name));
    // Equivalent spellings of a model share one name.
    let short = pattern.map(|it| gpool_model::pattern::short_model(&it.replace("gb", "GB")));
    short.map(|it| it.to_ascii_lowercase()).ok_or_else(|| invalid(field, &why()))
}

fn pool(field: &str, name: &str) -> Result<gpool_model::PoolName, Refusal> {
    check::pool(name).map_err(|refusal| match refusal {
        Refusal::Invalid { why, .. } => invalid(field, &why),
        other => other,
    })
}

/// Quotas of a project by model and pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agreed {
    /// Guaranteed GPUs by model.
    pub gpus_of: Parts,
    /// Limits by model.
    pub limit_of: Parts,
    /// Guaranteed GPUs by pool.
    pub gpus_in: Parts,
    /// Limits by pool.
    pub limit_in: Parts,
}

impl Agreed {
    /// The quotas of a project.
    #[must_use]
    pub fn with(it: &Project) -> Self {
        let mut agreed = Self::default();
        for (kind, quota) in it.quotas.iter() {
            let (name, gpus, limit) = match kind {
                ResourceKind::GpuModel(model) => {
                    (model.as_str(), &mut agreed.gpus_of, &mut agreed.limit_of)
                }
                ResourceKind::GpuPool(pool) => {
                    (pool.as_str(), &mut agreed.gpus_in, &mut agreed.limit_in)
                }
                _ => continue,
            };
            let note = |parts: &mut Parts, amount: Option<Amount>| {
                if let Some(amount) = amount {
                    parts.insert(name.to_owned(), in_thousandths(amount));
                }
            };
            note(gpus, quota.guaranteed);
            note(limit, Some(quota.limit).filter(|limit| !limit.is_unlimited()));
        }
        agreed
    }

    /// Formats each setting as a user would write it.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("gpus_of", words(&self.gpus_of)),
            ("limit_of", words(&self.limit_of)),
            ("gpus_in", words(&self.gpus_in)),
            ("limit_in", words(&self.limit_in)),
        ]
    }
}

fn words(parts: &Parts) -> String {
    let words: Vec<String> = parts.iter().map(|(name, it)| format!("{name}={it}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(",") }
}
