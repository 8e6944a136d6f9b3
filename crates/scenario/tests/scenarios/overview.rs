//! What people are shown of projects at a moment: what each may have, has, borrows and lends.

use std::fmt::Write as _;

use gpool_scenario::{Cluster, Situation};
use gpool_sched::{Lent, project_shares};
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
        let loans = |loans: &[Lent], word: &str| -> String {
            let name = |it: &Lent| {
                it.project.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string)
            };
            let terms = |it: &Lent| {
                let asked = if it.when_asked { "" } else { " not when asked" };
                let ends = it.ends.map(|end| {
                    format!(" {} after {}", end.basis.as_str(), end.at.since(snapshot.now))
                });
                format!("{asked}{}", ends.unwrap_or_default())
            };
            let loan =
                |it: &Lent| format!("  {word} {} {}{}", amount(it.amount), name(it), terms(it));
            loans.iter().map(loan).collect()
        };
        let (from, to) = (loans(&it.borrows, "from"), loans(&it.lends, "to"));
        let _ = writeln!(text, "{from}{to}");
    }
    text
}

#[test]
fn who_holds_more_than_is_promised_borrows_first_what_nobody_was_then_from_others() {
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
fn a_department_has_what_is_below_it_and_only_leaves_borrow() {
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
fn where_nothing_was_agreed_nothing_is_shared() {
    assert_eq!(shares("node lab1  4 x h100\njob  r  2  running lab1[0-1]"), "");
}

/// I have lent what is mine: when do I have it back if I do not ask?
#[test]
fn a_loan_ends_when_so_much_has_ended_of_who_holds_it() {
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

/// More runs that can't be taken back than is guaranteed since that is less: is it lent at call?
#[test]
fn what_can_not_be_taken_back_is_given_back_when_it_ends() {
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
