//! Reasons in the API: a stable code, numbers, and a text.
//!
//! Each file contains one kind of reason: the meaning, numbers and text of each code.

use std::collections::BTreeSet;

use gpool_model::policy::UserCap;
use gpool_wire::reason::{all, reason_text};

/// The model's source. The test reads all codes from it: a reason has fields, so there is no
/// list of values.
const MODEL: &str = include_str!("../../../model/src/reason/code.rs");

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
fn a_user_limit_in_a_project_has_its_numbers() {
    let in_red = |what, used, most| gpool_model::Reason::QuotaUserInProject {
        user: "ana".into(),
        project: gpool_model::ProjectName::new("red"),
        what,
        used,
        most,
    };
    assert_eq!(
        reason_text(&in_red(UserCap::RunningJobs, 2, 2)),
        "Its user runs 2 jobs in project red, their limit there (set by an admin)"
    );
    assert_eq!(
        reason_text(&in_red(UserCap::Gpus, 500, 1000)),
        "Its user holds 0.5 of 1 GPU in project red, their limit there (set by an admin)"
    );
}
