//! Projects and quotas as tables and pages.

use gpool_wire::Time;

use gpool_cli::render::clock;
use gpool_cli::render::view::View;
use gpool_verbs::render::projects::{held, loan_lines, loans, return_lines};
use gpool_wire::{Quantity, QuotaLoan, QuotaReturn, QuotaRow};

fn row(guaranteed: u64, held: f64, on_loan: f64) -> QuotaRow {
    QuotaRow {
        project: "red".to_owned(),
        parent: None,
        depth: 0,
        department: false,
        guaranteed: Quantity::Whole(guaranteed),
        limit: None,
        share: Some(4.0),
        held,
        in_quota: held - on_loan,
        on_loan,
        for_good: 0.0,
        borrows: Vec::new(),
        lends: Vec::new(),
        parts: Vec::new(),
        n_pending: 0,
        pending: 0.0,
        used: 0.0,
    }
}

fn loan(project: Option<&str>, gpus: f64) -> QuotaLoan {
    let project = project.map(str::to_owned);
    QuotaLoan { project, gpus, when_asked: true, until: None, basis: None }
}

#[test]
fn loans_return_on_demand_or_when_their_jobs_have_ended() {
    let clock = clock::Clock::of(Some("UTC".to_owned()));
    let now = Time(gpool_model::Timestamp::new(1_800_000_000_000));
    let view = View { clock: &clock, now, me: "ana" };
    let mut it = row(1, 4.0, 3.0);
    let until = Some(Time(gpool_model::Timestamp::new(1_800_003_600_000)));
    let basis = Some("limit".to_owned());
    it.borrows = vec![loan(None, 1.0), QuotaLoan { until, basis, ..loan(Some("nlp"), 2.0) }];
    it.lends = vec![QuotaLoan { when_asked: false, until, ..loan(Some("web"), 1.0) }];
    assert_eq!(
        loan_lines(&[it], &view),
        "red borrows 1 unassigned: returned on demand, otherwise at an unknown time\n\
         red borrows 2 from nlp: returned on demand, otherwise by 09:00 (time limit)\n\
         red lends 1 to web: returned by 09:00 (predicted), only partly on demand"
    );
}

#[test]
fn a_job_that_returns_gpus_is_listed_with_them_and_its_end() {
    let clock = clock::Clock::of(Some("UTC".to_owned()));
    let now = Time(gpool_model::Timestamp::new(1_800_000_000_000));
    let view = View { clock: &clock, now, me: "ana" };
    let gpu = |node: &str, gpu| gpool_wire::ReturnedGpu { node: node.to_owned(), gpu };
    let it = QuotaReturn {
        job: "4".to_owned(),
        user: "bo".to_owned(),
        project: "red".to_owned(),
        gpus: vec![gpu("lab1", 0), gpu("lab2", 3), gpu("lab1", 1)],
        beneficiary: "9".to_owned(),
        beneficiary_project: Some("nlp".to_owned()),
        until: Time(gpool_model::Timestamp::new(1_800_000_600_000)),
    };
    assert_eq!(
        return_lines(&[it], &view),
        ["job 4 of bo (red) returns GPUs lab1:0,1 lab2:3 to job 9 of nlp, at 08:10 at the latest"]
    );
}

#[test]
fn bars_show_what_is_left_and_what_is_on_loan() {
    assert_eq!(held(&row(4, 3.0, 0.0)).text(), "███░ 3");
    assert_eq!(held(&row(4, 5.0, 1.0)).text(), "████┃█ 5");
    assert_eq!(held(&row(0, 0.0, 0.0)).text(), " 0");
    assert_eq!(held(&row(0, 2.0, 2.0)).text(), "┃██ 2");
    assert_eq!(held(&row(80, 40.0, 0.0)).text(), "████░░░░ 40");
}

#[test]
fn loans_name_the_other_project() {
    let mut it = row(4, 5.0, 1.0);
    it.borrows = vec![loan(None, 1.0), loan(Some("nlp"), 2.5)];
    assert_eq!(loans(&it), "borrows 1 unassigned, 2.5 from nlp");
    it.borrows.clear();
    it.lends = vec![loan(Some("nlp"), 1.0)];
    assert_eq!(loans(&it), "lends 1 to nlp");
}
