//! The report on projects: quota, usage, borrowing and lending of each.

use std::fmt::Write as _;

use gpool_scenario::{Cluster, Situation};
use gpool_sched::{Loan, project_shares};
use insta::assert_snapshot;

fn shares(scenario: &str) -> String {
    let situation = Situation::parse(scenario).unwrap_or_else(|error| panic!("{error}"));
    let cluster = Cluster::of(&situation);
    let snapshot = cluster.snapshot();
    let mut text = String::new();
    let amount = |milli: u64| gpool_model::MilliCpu::new(milli);
    for it in project_shares(&snapshot, snapshot.world.policy()) {
        let bound = |it: gpool_model::Amount| {
            it.finite().map_or_else(|| "all".to_owned(), |it| amount(it).to_string())
        };
        let account = it.account;
        let _ = write!(
            text,
            "{:5} guaranteed {} share {} holds {}",
            it.project,
            bound(account.guaranteed),
            bound(account.share),
            amount(account.held)
        );
        let loans = |loans: &[Loan], word: &str| -> String {
            let name = |it: &Loan| {
                it.project.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string)
            };
            let terms = |it: &Loan| {
                let asked = if it.is_reclaimable { "" } else { " not when asked" };
                let ends = it.ends.map(|end| {
                    format!(" {} after {}", end.basis.as_str(), end.at.since(snapshot.now))
                });
                format!("{asked}{}", ends.unwrap_or_default())
            };
            let loan =
                |it: &Loan| format!("  {word} {} {}{}", amount(it.amount), name(it), terms(it));
            loans.iter().map(loan).collect()
        };
        let (from, to) = (loans(&it.borrows, "from"), loans(&it.lends, "to"));
        let _ = writeln!(text, "{from}{to}");
    }
    text
}

#[test]
fn a_project_borrows_first_unguaranteed_capacity_and_then_from_others() {
    assert_snapshot!(shares("
        node lab1  8 x h100
        project default gpus 0
        project red   gpus 2
        project blue  gpus 3
        project green gpus 2
        job  r  6  running lab1[0-5]  project red  preemptible
        job  g  1  running lab1[6]  project green
    "), @r"
    default guaranteed 0 share 0 holds 0
    red   guaranteed 2 share 6 holds 6  from 1 nobody  from 3 blue
    blue  guaranteed 3 share 0 holds 0  to 3 red
    green guaranteed 2 share 1 holds 1
    ");
}

#[test]
fn a_department_sums_up_its_projects_and_only_leaves_borrow() {
    assert_snapshot!(shares("
        node lab1  4 x h100
        project default gpus 0
        project lab
        project red  in lab  gpus 1
        project blue in lab  gpus 3
        job  r  2  running lab1[0-1]  project red  preemptible
    "), @r"
    default guaranteed 0 share 0 holds 0
    lab   guaranteed 4 share 2 holds 2
    red   guaranteed 1 share 2 holds 2  from 1 blue
    blue  guaranteed 3 share 0 holds 0  to 1 red
    ");
}

#[test]
fn without_projects_there_are_no_shares() {
    assert_eq!(shares("node lab1  4 x h100\njob  r  2  running lab1[0-1]"), "");
}

/// Others borrow my quota: when do I get it back without reclaiming?
#[test]
fn borrowed_quota_returns_when_enough_of_the_borrowers_jobs_end() {
    assert_snapshot!(shares("
        node lab1  8 x h100
        project default gpus 0
        project red   gpus 2
        project blue  gpus 3
        job  a  2  running lab1[0-1] 1h  project red  limit 2h
        job  b  1  running lab1[2] 1h  project red  preemptible  limit 5h
        job  c  2  running lab1[3-4] 1h  project red  preemptible  limit 4h
        job  d  1  running lab1[5] 1h  project red  preemptible
        job  e  1  running lab1[6] 1h  project blue
    "), @"
    default guaranteed 0 share 0 holds 0
    red   guaranteed 2 share 6 holds 6  from 3 nobody limit after 3h00  from 1 blue limit after 1h00
    blue  guaranteed 3 share 1 holds 1  to 1 red limit after 1h00
    ");
}

/// Non-preemptible jobs hold more than a reduced guarantee: can the rest be reclaimed?
#[test]
fn non_preemptible_jobs_return_quota_only_when_they_end() {
    assert_snapshot!(shares("
        node lab1  4 x h100
        project default gpus 0
        project red   gpus 1
        project blue  gpus 3
        job  a  2  running lab1[0-1] 1h  project red  limit 2h
        job  b  1  running lab1[2] 1h  project red  preemptible  limit 5h
    "), @"
    default guaranteed 0 share 0 holds 0
    red   guaranteed 1 share 3 holds 3  from 2 blue not when asked limit after 1h00
    blue  guaranteed 3 share 0 holds 0  to 2 red not when asked limit after 1h00
    ");
}
