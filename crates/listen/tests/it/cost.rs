//! The cost of recorded GPU time.

use gpool_history::{
    Batch, Dimension, History, Minute, ReportQuery, Settings, Span, Step, UNMANAGED, Use,
};
use gpool_insight::usage::cost::{Priced, report};
use gpool_insight::usage::{UsageHistory, this_minute};
use gpool_model::{Policy, Timestamp};
use gpool_wire::usage::UsageParams;
use gpool_wire::{JobCreate, PolicyPatch};

use crate::rig::{OWNER, Rig};

/// The start of an hour.
fn start() -> Minute {
    Minute::new(29_000_040 / 60 * 60)
}

pub fn use_of<'a>(job: &'a str, model: &'a str, node: &'a str) -> Use<'a> {
    Use {
        project: "vision",
        user: "ana",
        model,
        kind: "train",
        node,
        pool: "batch",
        job,
        allocated_ms: 3_600_000,
        busy_ms: Some(2_700_000),
        useful_ms: None,
        energy_j: Some(7_200_000),
        waited_ms: 0,
        guaranteed_ms: 0,
    }
}

/// Writes GPU time into the store of a state folder, one list for each hour.
pub fn write(state: &std::path::Path, start: Minute, hours: &[&[Use<'_>]]) {
    let path = state.join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).unwrap();
    for (ix, uses) in (0..).zip(hours) {
        let minute = start.after(60 * ix);
        history.append(minute, minute, &Batch { uses, ..Batch::default() }).unwrap();
    }
}

fn policy(prices: &str) -> Policy {
    Policy { prices: prices.parse().unwrap(), ..Policy::fair() }
}

/// Cost, idle part and energy in hundredths, by row.
fn shown(rows: &[Priced]) -> Vec<(String, i64, i64, Option<i64>)> {
    let hundredths = |millionths: f64| (millionths / 1e4).round() as i64;
    let row = |it: &Priced| {
        let names = it.row.names.as_ref().map_or("others".to_owned(), |names| names.join(" "));
        let Priced { sum, .. } = it;
        (names, hundredths(sum.all()), hundredths(sum.idle), sum.energy.map(hundredths))
    };
    rows.iter().map(row).collect()
}

#[test]
fn each_gpu_has_its_price_and_groups_are_sorted_by_cost() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = Use {
        node: "",
        pool: "",
        job: "",
        allocated_ms: 0,
        busy_ms: None,
        energy_j: None,
        waited_ms: 7_200_000,
        ..use_of("", "H100-80G", "")
    };
    let first = [use_of("1", "A100-40G", "n1"), use_of("2", "H100-80G", "n2"), waiting];
    let unmeasured = Use { busy_ms: None, energy_j: None, ..use_of("3", "L4", "n3") };
    write(folder.path(), start(), &[&first, &[unmeasured]]);
    let store = UsageHistory::new(folder.path());
    let span = Span { from: start(), to: start().after(120) };
    let by_job = ReportQuery { span, step: None, by: &[Dimension::Job], only: &[], n_groups: 9 };
    let all = policy("currency=EUR,model.a100=1,model.h100=2,energy=0.5");
    let rows = report(&store, &all, &by_job).unwrap();
    let text = str::to_owned;
    let expected = [
        (text("2"), 300, 50, Some(100)),
        (text("1"), 200, 25, Some(100)),
        (text("3"), 0, 0, None),
        (text(""), 0, 0, None),
    ];
    assert_eq!(shown(&rows), expected);
    assert_eq!(rows[2].sum.unpriced_ms, 3_600_000);
    assert_eq!(rows[3].sum.waited, 4e6);

    // Groups beyond the limit are one row.
    let few = ReportQuery { n_groups: 1, ..by_job };
    let rows = report(&store, &all, &few).unwrap();
    assert_eq!(
        shown(&rows),
        [(text("2"), 300, 50, Some(100)), (text("others"), 200, 25, Some(100))]
    );
}

#[test]
fn a_change_of_prices_does_not_change_the_cost_of_earlier_time() {
    let folder = tempfile::tempdir().unwrap();
    let hour = [use_of("1", "H100-80G", "n1")];
    write(folder.path(), start(), &[&hour, &hour, &hour]);
    let store = UsageHistory::new(folder.path());
    let first = policy("currency=EUR,gpu=1");
    let mut second = policy("currency=EUR,gpu=3");
    // In the middle of the second hour: the new prices apply to the whole of it.
    let change = u64::from(start().after(90).number()) * 60_000;
    second.note_prices(&first, Timestamp::new(change));
    let span = Span { from: start(), to: start().after(180) };
    let hourly = ReportQuery { span, step: Some(Step::HOUR), by: &[], only: &[], n_groups: 9 };
    let costs = |policy: &Policy, report_: &ReportQuery<'_>| -> Vec<i64> {
        let rows = report(&store, policy, report_).unwrap();
        shown(&rows).into_iter().map(|(_, cost, _, _)| cost).collect()
    };
    assert_eq!(costs(&first, &hourly), [100, 100, 100]);
    assert_eq!(costs(&second, &hourly), [100, 300, 300]);
    assert_eq!(costs(&second, &ReportQuery { step: None, ..hourly.clone() }), [700]);

    // Another currency is another row.
    let mut third = policy("currency=USD,gpu=4");
    third.note_prices(&second, Timestamp::new(change + 3_600_000));
    let rows = report(&store, &third, &ReportQuery { step: None, ..hourly }).unwrap();
    let currencies: Vec<&str> = rows.iter().map(|row| row.currency.as_str()).collect();
    assert_eq!((currencies, shown(&rows)[1].1), (vec!["EUR", "USD"], 400));
}

#[test]
fn the_api_has_the_cost_of_groups_and_jobs() {
    let mut rig = Rig::new();
    let client = rig.client(OWNER);
    let set = |text: &str| {
        let set = [("prices".to_owned(), text.to_owned())].into();
        client.change_policy(&PolicyPatch { set, ..PolicyPatch::default() })
    };
    assert!(set("gpu=1").is_err(), "prices need a currency");
    assert!(set("currency=EUR,gpu=1.5").unwrap().settings["prices"].contains("gpu=1.5"));
    let asked = JobCreate {
        command: vec!["sleep".to_owned()],
        gpus: Some("1".to_owned()),
        ..JobCreate::default()
    };
    let job = client.submit(&asked, None).unwrap().id;
    rig.until("it runs", || client.job(&job).unwrap().run.started_at.is_some());
    assert_eq!(client.job(&job).unwrap().usage.cost, []);

    let hour = [use_of(&job, "H100-80G", "n1"), use_of("99", "H100-80G", "n1")];
    write(rig.folder.path(), this_minute(), &[&hour]);
    let cost = &client.job(&job).unwrap().usage.cost[0];
    assert_eq!((cost.cost, cost.idle_cost, cost.energy_cost), (1.5, Some(0.375), None));
    assert_eq!(client.report(&job).unwrap().job.usage.cost.len(), 1);
    let range = UsageParams { by: Some("user".to_owned()), ..UsageParams::default() };
    let rows = client.cost(&range).unwrap();
    assert_eq!((rows.len(), rows[0].cost.cost, &*rows[0].cost.currency), (1, 3.0, "EUR"));
    assert_eq!(rows[0].usage.user.as_deref(), Some("ana"));
    assert_eq!(rows[0].usage.energy_kwh, Some(4.0));
    only_some_time_is_reported(&client, &job);
}

fn only_some_time_is_reported(client: &gpool_client::Client, job: &str) {
    let only = |only: &str| UsageParams {
        by: Some("job".to_owned()),
        only: Some(only.to_owned()),
        ..UsageParams::default()
    };
    let jobs = |only: &UsageParams| -> Vec<String> {
        let usage = client.usage(only).unwrap().into_iter().map(|it| it.group("")).collect();
        let cost = client.cost(only).unwrap().into_iter().map(|it| it.usage.group(""));
        assert_eq!(cost.collect::<Vec<_>>(), usage);
        usage
    };
    let pair = format!("model=H100-80G, job={job}");
    assert_eq!(jobs(&only(&pair)), [job]);
    assert_eq!(jobs(&only("model=H100-80G,node=n1")).len(), 2);
    assert!(jobs(&only("user=eve")).is_empty());
    for wrong in ["user", "usr=ana", "user="] {
        let refused = client.usage(&only(wrong)).unwrap_err().to_string();
        assert!(refused.contains("only: write project, user"), "{refused}");
    }
}

#[test]
fn a_used_up_budget_holds_jobs_with_the_reason() {
    let mut rig = Rig::new();
    let client = rig.client(OWNER);
    let set = |settings: &[(&str, &str)]| {
        let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let set = settings.iter().map(text).collect();
        client.change_policy(&PolicyPatch { set, ..PolicyPatch::default() }).unwrap();
    };
    // The job of project vision, of user ana, costs 4.
    let past = Use { project: "default", ..use_of("9", "H100-80G", "n1") };
    // No budget can stop processes that gpool did not start.
    let outside = Use { project: "", kind: UNMANAGED, ..use_of("", "H100-80G", "n1") };
    write(rig.folder.path(), this_minute(), &[&[past, outside]]);
    set(&[("prices", "currency=EUR,gpu=4"), ("budgets", "project.default=3,user.ana=5,users=9")]);
    let shown = || -> Vec<(String, f64, f64, String)> {
        let rows = client.budgets().unwrap();
        rows.into_iter().map(|it| (it.name, it.spent, it.budget, it.state)).collect()
    };
    let row =
        |name: &str, spent, budget, state: &str| (name.to_owned(), spent, budget, state.to_owned());
    assert_eq!(shown(), [row("default", 4.0, 3.0, "over"), row("ana", 4.0, 5.0, "warn")]);
    let by_user = UsageParams { by: Some("user".to_owned()), ..UsageParams::default() };
    let rows = client.cost(&by_user).unwrap();
    let groups: Vec<_> = rows.iter().map(|it| (it.usage.group("none"), it.cost.cost)).collect();
    let of = |name: &str| (name.to_owned(), 4.0);
    assert_eq!(groups, [of("ana"), of("ana (outside gpool)")]);
    rig.compare_budgets();
    let sleep = JobCreate { command: vec!["sleep".to_owned()], ..JobCreate::default() };
    let before = client.submit(&sleep, None).unwrap().id;
    rig.until("it runs", || client.job(&before).unwrap().run.started_at.is_some());

    set(&[("over_budget", "hold")]);
    rig.compare_budgets();
    assert_eq!(shown()[0].3, "holds");
    let held = client.submit(&sleep, None).unwrap();
    assert_eq!(held.wait.held_by.as_deref(), Some("budget"));
    let reason = &client.why(&held.id).unwrap().reasons[0];
    assert_eq!(reason.code, "over_budget");
    let text = "the budget of project default for this month is used up, 4 EUR of 3";
    assert!(reason.text.contains(text), "{}", reason.text);
    assert!(client.job(&before).unwrap().run.ended_at.is_none(), "running jobs continue");

    set(&[("budgets", "project.default=30")]);
    rig.compare_budgets();
    rig.until("it runs", || client.job(&held.id).unwrap().run.started_at.is_some());
}
