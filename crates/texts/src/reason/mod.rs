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

pub use self::held::SET_ASIDE;
use crate::kind::amount_words;
pub use crate::request_words::request_words;
pub use crate::request_words::{devices, gpus, models_words, share_part, share_words};
use crate::time::Time;
use crate::words::take;

/// A reason why a job does not start.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(example = json!({
    "code": "gpus_not_free_together", "need": 4, "free": 2, "node": "lab1", "blocking": true,
    "text": "It needs 4 GPUs on one node, and no node has more than 2 free"
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
        let (text, facts) = explain(reason);
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { code: reason.code().to_owned(), blocking, text, facts }
    }

    /// Adds what to do about it, for a reason that depends on the settings of the cluster.
    #[must_use]
    pub fn with_next_step(mut self, step: &str) -> Self {
        self.text = format!("{}; {step}", self.text);
        self
    }

    /// Removes paths, for callers that may not see the files of the job's owner.
    #[must_use]
    pub fn for_stranger(mut self) -> Self {
        if self.facts.remove("path").is_some() {
            "A node lacks a file that it needs".clone_into(&mut self.text);
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

/// Returns a reason as a sentence about the job, without the final period.
#[must_use]
pub fn reason_text(reason: &gpool_model::Reason) -> String {
    explain(reason).0
}

/// Text of a reason, and its numbers and names.
type Explanation = (String, Vec<(&'static str, Value)>);

/// Asks each file in turn; the text of an unknown code is the code itself.
fn explain(reason: &gpool_model::Reason) -> Explanation {
    if let gpool_model::Reason::OfPart { part, reason } = reason {
        let (text, mut facts) = explain(reason);
        facts.push(("part", Value::from(&**part)));
        return (format!("Part {part}: {text}"), facts);
    }
    let told = room::explain(reason)
        .or_else(|| node::explain(reason))
        .or_else(|| order::explain(reason))
        .or_else(|| quota::explain(reason))
        .or_else(|| held::explain(reason));
    told.unwrap_or_else(|| (reason.code().replace('_', " "), Vec::new()))
}

const fn about(code: &'static str, what: &'static str, tip: &'static str) -> About {
    About { code, what, tip }
}

/// Formats a time span: `from Fri 20 Nov 18:00 UTC until Fri 20 Nov 22:00 UTC`.
pub fn span_words(from: Timestamp, until: Option<Timestamp>) -> String {
    let until = until.map_or_else(|| "an admin ends it".to_owned(), |it| Time(it).short());
    format!("from {} until {until}", Time(from).short())
}

/// Describes a number of free devices: `none is free`, `2 are free`.
fn free_words(free: u32) -> String {
    match free {
        0 => "none is free".to_owned(),
        1 => "1 is free".to_owned(),
        n => format!("{n} are free"),
    }
}

/// Formats an amount of a user's cap.
pub fn cap_words(what: UserCap, amount: u64) -> String {
    match (what, amount) {
        (UserCap::RunningJobs, 1) => "1 job running".to_owned(),
        (UserCap::RunningJobs, n) => format!("{n} jobs running"),
        (UserCap::Gpus, amount) => amount_words(&ResourceKind::Gpu, amount),
    }
}
