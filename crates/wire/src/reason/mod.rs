//! Reasons in the API: a stable code, numbers, and a text.
//!
//! Each file contains one kind of reason: the meaning, numbers and text of each code.

mod held;
mod node;
mod order;
mod quota;
mod room;

use std::collections::BTreeMap;

use gpool_model::policy::UserCap;
use gpool_model::resource::ResourceKind;
use gpool_model::unit::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub(crate) use self::held::SET_ASIDE;
use crate::json::take;
use crate::kind::amount_words;
pub use crate::request_words::request_words;
pub(crate) use crate::request_words::{devices, gpus, models_words, share_words};
use crate::time::Time;

/// A reason why a job does not start.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(example = json!({
    "code": "gpus_not_free_together", "need": 4, "free": 2, "node": "lab1", "blocking": true,
    "text": "4 GPUs needed together; lab1 has 2 free"
}))]
pub struct Reason {
    /// Stable code. New ones may be added.
    pub code: String,
    /// Whether this reason alone keeps the job from starting.
    pub blocking: bool,
    /// Text of the reason. May change.
    pub text: String,
    /// Numbers and names, depending on the code: `need`, `free`, `node`, `job` ….
    #[serde(flatten)]
    pub facts: BTreeMap<String, Value>,
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut facts = BTreeMap::deserialize(deserializer)?;
        Ok(Self {
            code: take(&mut facts, "code")?,
            blocking: take(&mut facts, "blocking")?,
            text: take(&mut facts, "text")?,
            facts,
        })
    }
}

impl Reason {
    /// Converts a reason of the model and adds its text.
    #[must_use]
    pub fn new(reason: &gpool_model::Reason, blocking: bool) -> Self {
        let (text, facts) = told(reason);
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { code: reason.code().to_owned(), blocking, text, facts }
    }

    /// Removes paths, for callers that may not see the files of the job's owner.
    #[must_use]
    pub fn for_stranger(mut self) -> Self {
        if self.facts.remove("path").is_some() {
            "held: something that it needs is not there".clone_into(&mut self.text);
        }
        self
    }
}

/// Help for a reason's code.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The code in the API.
    pub code: &'static str,
    /// The meaning of the code.
    pub what: &'static str,
    /// Advice for users.
    pub tip: &'static str,
}

/// Returns every reason.
pub fn all() -> impl Iterator<Item = &'static About> {
    [room::ABOUT, node::ABOUT, order::ABOUT, quota::ABOUT, held::ABOUT].into_iter().flatten()
}

/// Returns a reason as one line of text, numbers first.
#[must_use]
pub fn reason_text(reason: &gpool_model::Reason) -> String {
    told(reason).0
}

/// Text of a reason, and its numbers and names.
type Told = (String, Vec<(&'static str, Value)>);

/// Asks each file in turn; the text of an unknown code is the code itself.
fn told(reason: &gpool_model::Reason) -> Told {
    let told = room::told(reason)
        .or_else(|| node::told(reason))
        .or_else(|| order::told(reason))
        .or_else(|| quota::told(reason))
        .or_else(|| held::told(reason));
    told.unwrap_or_else(|| (reason.code().replace('_', " "), Vec::new()))
}

const fn about(code: &'static str, what: &'static str, tip: &'static str) -> About {
    About { code, what, tip }
}

/// Formats a time span: `Fri 20 Nov 18:00 UTC to Fri 20 Nov 22:00 UTC`.
pub(crate) fn span_words(from: Timestamp, until: Option<Timestamp>) -> String {
    let until =
        until.map_or_else(|| "until released".to_owned(), |it| format!("to {}", Time(it).short()));
    format!("{} {until}", Time(from).short())
}

/// Formats an amount of a user's cap.
pub(crate) fn cap_words(what: UserCap, amount: u64) -> String {
    match (what, amount) {
        (UserCap::RunningJobs, 1) => "1 job running".to_owned(),
        (UserCap::RunningJobs, n) => format!("{n} jobs running"),
        (UserCap::Gpus, amount) => amount_words(&ResourceKind::Gpu, amount),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The model's source. The test reads all codes from it: a reason has fields, so there is no
    /// list of values.
    const MODEL: &str = include_str!("../../../model/src/reason.rs");

    #[test]
    fn every_code_says_what_it_means_once() {
        let code = |line: &'static str| {
            let (_, rest) = line.split_once("=> \"")?;
            rest.strip_suffix("\",")
        };
        let from = MODEL.find("fn code(").expect("reasons have codes");
        let until = MODEL[from..].find("\n    }\n").map_or(MODEL.len(), |end| from + end);
        let model: BTreeSet<&str> = MODEL[from..until].lines().filter_map(code).collect();
        let codes: Vec<&str> = all().map(|it| it.code).collect();
        assert_eq!(codes.iter().copied().collect::<BTreeSet<_>>(), model);
        assert_eq!(codes.len(), model.len());
    }

    #[test]
    fn who_has_as_much_in_a_project_is_named_with_the_cap() {
        let in_red = |what, used, most| gpool_model::Reason::QuotaUserInProject {
            user: "ana".into(),
            project: gpool_model::ProjectName::new("red"),
            what,
            used,
            most,
        };
        assert_eq!(
            reason_text(&in_red(UserCap::RunningJobs, 1, 2)),
            "ana has 1 job running in project red, and one user may have at most 2 jobs running"
        );
        assert_eq!(
            reason_text(&in_red(UserCap::Gpus, 500, 1000)),
            "ana has 0.5 GPUs in project red, and one user may have at most 1 GPU"
        );
    }
}
