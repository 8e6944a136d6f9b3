//! Quotas of parts of the GPUs, by model and by pool, as they are written and shown.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::said::repeated;
use gpool_model::{
    Amount, GpuRequest, MilliGpu, ModelPattern, Project, QuotaPatch, Refusal, ResourceKind, parse,
};

use crate::amount::Written;
use crate::check::{self, invalid};
use crate::project::{ProjectSettings, quota};
use crate::project_shown::in_thousandths;

/// Amounts by model, or by pool.
pub type Parts = BTreeMap<String, Written>;

/// What is said of parts of the GPUs, each valid by itself.
///
/// # Errors
/// The first that is not.
pub(crate) fn patches(it: &ProjectSettings) -> Result<Vec<(ResourceKind, QuotaPatch)>, Refusal> {
    let mut patches = BTreeMap::<ResourceKind, QuotaPatch>::new();
    let mut seen = BTreeSet::new();
    for (field, parts, is_limit) in [
        ("gpus_of", &it.gpus_of, false),
        ("limit_of", &it.limit_of, true),
        ("gpus_in", &it.gpus_in, false),
        ("limit_in", &it.limit_in, true),
    ] {
        for (name, written) in parts {
            let kind = match field.ends_with("_of") {
                true => ResourceKind::GpuModel(model(field, name)?),
                false => ResourceKind::GpuPool(pool(field, name)?),
            };
            let (written, read) =
                (Some(written.clone()), |text: &str| parse::gpus(text).map(MilliGpu::get));
            if !seen.insert((kind.clone(), is_limit)) {
                let why = format!("{:?} is there already, written otherwise", repeated(name));
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

/// A model as quotas name it: what `--gpus` would call it.
fn model(field: &str, name: &str) -> Result<String, Refusal> {
    let request = GpuRequest::parse(name).ok().filter(|_| !name.contains([':', '@', '|']));
    let pattern =
        request.and_then(|it| it.models.first().map(ModelPattern::as_str).map(str::to_owned));
    let why = || format!("{:?} is no model of GPUs; write h100, or a100-80g", repeated(name));
    // One way to write what is one word to devices.
    let short = pattern.map(|it| gpool_model::pattern::short_model(&it.replace("gb", "GB")));
    short.map(|it| it.to_ascii_lowercase()).ok_or_else(|| invalid(field, &why()))
}

fn pool(field: &str, name: &str) -> Result<gpool_model::PoolName, Refusal> {
    check::pool(name).map_err(|refusal| match refusal {
        Refusal::Invalid { why, .. } => invalid(field, &why),
        other => other,
    })
}

/// What is agreed with a project of parts of the GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Agreed {
    pub gpus_of: Parts,
    pub limit_of: Parts,
    pub gpus_in: Parts,
    pub limit_in: Parts,
}

impl Agreed {
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

    /// Each setting as a user would write it.
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

#[cfg(test)]
mod tests {
    use gpool_model::{ProjectName, Timestamp};
    use serde_json::json;

    use super::*;

    fn settings(value: serde_json::Value) -> ProjectSettings {
        serde_json::from_value(value).expect("the fields are there")
    }

    #[test]
    fn parts_are_read_shown_and_taken_away() {
        let patch = settings(json!({
            "gpus_of": {"H100": 4, "a100-80g": "0.5"},
            "limit_of": {"h100": 6},
            "gpus_in": {"big": "unlimited"},
            "limit_in": {"small": 0},
        }));
        let patch = patch.patch().expect("it is valid");
        let project = patch.of_blank(ProjectName::new("red"), Timestamp::ZERO);
        let h100 = project.quota(&ResourceKind::GpuModel("h100".to_owned()));
        assert_eq!((h100.guaranteed, h100.limit), (Amount::of(4000), Amount::counted(6000)));
        let shown = Agreed::with(&project).settings().map(|(_, words)| words);
        assert_eq!(shown, ["a100-80g=0.5,h100=4", "h100=6", "big=unlimited", "small=0"]);
        let less = settings(json!({"gpus_of": {"h100": "none", "a100-80g": "none"},
            "limit_of": {"h100": "none"}, "gpus_in": {"big": "none"}}));
        let less = less.patch().expect("it is valid").applied_to(&project);
        let kinds: Vec<&ResourceKind> = less.quotas.iter().map(|(kind, _)| kind).collect();
        let small = gpool_model::PoolName::new("small");
        assert_eq!(kinds, [&ResourceKind::GpuPool(small)], "what is not said stays");
    }

    #[test]
    fn what_is_guaranteed_by_model_is_guaranteed_in_all() {
        let all = |value| {
            let patch = settings(value).patch().expect("it is valid");
            let project = patch.of_blank(ProjectName::new("red"), Timestamp::ZERO);
            project.quota(&ResourceKind::Gpu).guaranteed
        };
        let by_model = json!({"h100": 4, "a100": 2});
        assert_eq!(all(json!({"gpus_of": by_model})), Amount::of(6000));
        assert_eq!(all(json!({"gpus_of": by_model, "gpus_in": {"big": 8}})), Amount::of(8000));
        assert_eq!(all(json!({"gpus_of": by_model, "gpus": 3})), Amount::of(3000));
        assert_eq!(all(json!({"limit_of": {"h100": 1}})), None);
    }

    #[test]
    fn what_can_not_be_meant_is_refused_with_its_field() {
        for (value, said) in [
            (json!({"gpus_of": {"h100:2": 4}}), "gpus_of: \"h100:2\" is no model"),
            (json!({"gpus_of": {"4": 4}}), "gpus_of: \"4\" is no model"),
            (json!({"gpus_of": {"": 4}}), "gpus_of: \"\" is no model"),
            (json!({"limit_of": {"h100": "x"}}), "limit_of: \"x\" is not a number of GPUs"),
            (json!({"limit_of": {"h100": -1}}), "of at least 0"),
            (json!({"gpus_in": {"a b": 1}}), "gpus_in: a pool's name"),
            (json!({"gpus_of": {"h100": 1, "H100": 2}}), "gpus_of: \"h100\" is there already"),
            (json!({"gpus_of": {"a100-80g": 1, "a100-80GB": 2}}), "is there already"),
        ] {
            let said_is = match serde_json::from_value::<ProjectSettings>(value) {
                Err(error) => error.to_string(),
                Ok(settings) => match settings.patch() {
                    Err(Refusal::Invalid { field, why }) => format!("{field}: {why}"),
                    other => panic!("it is taken: {other:?}"),
                },
            };
            assert!(said_is.contains(said), "{said_is:?} says {said:?}");
        }
    }
}
