//! Messages about projects and users: rights, and that each is sent once.

use std::sync::Arc;

use gpool_control::Control;
use gpool_control::replay::Replay;
use gpool_model::budget::{BudgetStep, MonthSpending, Payer};
use gpool_model::notify::{Delivery, News, Sent};
use gpool_model::payer_news::{Digest, PayerEvent, PayerNews};
use gpool_model::project_change::{ProjectChange, ProjectChangeHow, ProjectPatch, ProjectsAsk};
use gpool_model::refusal::Permitted;
use gpool_model::*;

use crate::harness::*;

const WEEK: Millis = Millis::from_hours(24 * 7);

fn project(name: &str) -> Payer {
    Payer::Project(ProjectName::new(name))
}

fn user(name: &str) -> Payer {
    Payer::User(name.into())
}

fn rule(on: &[NotifyOn], url: &str) -> NotifyRule {
    NotifyRule { on: on.iter().copied().collect(), url: Arc::from(url), by_admin: false }
}

fn both() -> Vec<NotifyRule> {
    vec![rule(&[NotifyOn::Budget, NotifyOn::Digest], "http://a/")]
}

fn subscribe(
    harness: &mut Harness,
    caller: &Caller,
    payer: Payer,
    rules: Vec<NotifyRule>,
) -> Result<Reply, Refusal> {
    harness.command(caller, Command::Subscribe { payer, rules })
}

fn money(text: &str) -> Money {
    Money::parse(text).expect("valid")
}

/// The cost of ana in a month.
fn spent(month: u64, spent: &str, budget: &str) -> MonthSpending {
    let (month, currency) = (Timestamp::new(month), Arc::from("EUR"));
    let (spent, budget) = (money(spent), money(budget));
    MonthSpending { payer: user("ana"), month, spent, budget, currency }
}

fn report(harness: &mut Harness, spending: MonthSpending) {
    let all = vec![spending];
    harness.command(&root(), Command::ReportSpending { all }).expect("the server may");
}

fn digest(payer: Payer, to: Timestamp, n_ended: u64) -> Digest {
    Digest {
        payer,
        from: Timestamp::new(to.get().saturating_sub(WEEK.get())),
        to,
        allocated: GpuTime::ZERO,
        busy: None,
        idle: None,
        cost: None,
        currency: Arc::from(""),
        month: None,
        n_ended,
        n_failed: 0,
        waits: None,
        wasteful: Vec::new(),
    }
}

fn week(harness: &mut Harness, to: Timestamp, n_ended: u64) {
    let all = vec![digest(user("ana"), to, n_ended)];
    harness.command(&root(), Command::ReportDigests { all }).expect("the server may");
}

fn payer_news(delivery: &Delivery) -> &PayerNews {
    match &delivery.news {
        News::Payer(news) => news,
        News::Job(news) => panic!("it is about a job: {news:?}"),
    }
}

/// Takes the messages that were sent, and confirms them: the steps of budgets in percent, and 0
/// for a digest.
fn taken(harness: &mut Harness) -> Vec<u8> {
    let sent = std::mem::take(&mut harness.sent);
    for delivery in &sent {
        let id = Arc::clone(&delivery.id);
        harness.step(vec![Event::Delivered { id, sent: Sent::Taken }]);
    }
    let of = |delivery: &Delivery| match &payer_news(delivery).event {
        PayerEvent::Budget(reached) => reached.step.percent(),
        PayerEvent::Digest(_) => 0,
    };
    sent.iter().map(of).collect()
}

#[test]
fn each_step_of_a_budget_is_reported_once_in_a_month() {
    let mut it = Harness::new(1);
    subscribe(&mut it, &ana(), user("ana"), both()).unwrap();
    let (one, two) = (1_000, 2_000);
    for (month, cost, expected) in [
        (one, "79.99", vec![]),
        (one, "80", vec![80]),
        (one, "90", vec![]),
        (one, "100", vec![100]),
        (one, "150", vec![]),
        // A history that was lost takes no step back.
        (one, "1", vec![]),
        (one, "85", vec![]),
        // From below 80 % to above 100 % at once: one message.
        (two, "10", vec![]),
        (two, "101", vec![100]),
        // A clock that was set back begins no month again.
        (one, "100", vec![]),
        (two, "102", vec![]),
    ] {
        report(&mut it, spent(month, cost, "100"));
        assert_eq!(taken(&mut it), expected, "{month} {cost}");
        it.restart();
        report(&mut it, spent(month, cost, "100"));
        assert_eq!(taken(&mut it), [], "{month} {cost}, again after a restart");
    }
}

#[test]
fn a_higher_budget_takes_steps_back_and_a_lower_one_does_not() {
    let mut it = Harness::new(1);
    subscribe(&mut it, &ana(), user("ana"), both()).unwrap();
    for (cost, budget, expected) in [
        ("100", "100", vec![100]),
        ("100", "200", vec![]),
        ("160", "200", vec![80]),
        ("200", "200", vec![100]),
        // 83 %: that was reported, 100 % of the new budget was not.
        ("200", "240", vec![]),
        ("240", "240", vec![100]),
        ("240", "200", vec![]),
    ] {
        report(&mut it, spent(1_000, cost, budget));
        assert_eq!(taken(&mut it), expected, "{cost} of {budget}");
    }
}

#[test]
fn a_digest_is_sent_once_a_week_also_after_a_restart_and_a_crash() {
    let mut it = Harness::new(1);
    let earlier = it.now;
    it.now = it.now.after(Millis::from_hours(1));
    subscribe(&mut it, &ana(), user("ana"), both()).unwrap();
    week(&mut it, earlier, 3);
    assert_eq!(taken(&mut it), [], "the week had ended before the subscription");
    let monday = earlier.after(WEEK);
    it.now = monday;
    it.slow_store();
    it.ask(&root(), Command::ReportDigests { all: vec![digest(user("ana"), monday, 3)] });
    assert_eq!(it.sent, [], "the commit is not durable");
    it.catch_up();
    let sent = it.sent.clone();
    assert_eq!(taken(&mut it), [0]);
    let news = payer_news(&sent[0]);
    assert_eq!((&*news.owner.user, &news.payer), ("ana", &user("ana")));
    for _ in 0..2 {
        it.restart();
        week(&mut it, monday, 3);
        assert_eq!(taken(&mut it), []);
    }
    // New addresses do not get an old week, and a week without use sends nothing.
    subscribe(&mut it, &ana(), user("ana"), vec![rule(&[NotifyOn::Digest], "http://b/")]).unwrap();
    week(&mut it, monday, 3);
    week(&mut it, monday.after(WEEK), 0);
    assert_eq!(taken(&mut it), []);
    week(&mut it, monday.after(WEEK), 5);
    assert_eq!(taken(&mut it), [], "that week was looked at");
    week(&mut it, monday.after(WEEK).after(WEEK), 1);
    assert_eq!(taken(&mut it), [0]);
}

#[test]
fn a_digest_that_a_crash_lost_is_made_again_and_each_address_gets_its_events() {
    let mut it = Harness::new(1);
    let rules = vec![
        rule(&[NotifyOn::Digest], "http://a/"),
        rule(&[NotifyOn::Budget], "http://b/"),
        rule(&[NotifyOn::Digest], "mailto:ana@example.org"),
    ];
    subscribe(&mut it, &ana(), user("ana"), rules).unwrap();
    let monday = it.now.after(WEEK);
    it.now = monday;
    it.slow_store();
    let all = vec![digest(user("ana"), monday, 3)];
    let records = it.records.clone();
    it.ask(&root(), Command::ReportDigests { all });
    it.records = records;
    it.restart();
    assert_eq!(taken(&mut it), []);
    week(&mut it, monday, 3);
    let urls: Vec<Arc<str>> = it.sent.iter().map(|sent| Arc::clone(&sent.url)).collect();
    assert_eq!(taken(&mut it), [0, 0]);
    assert_eq!(urls, [Arc::from("http://a/"), Arc::<str>::from("mailto:ana@example.org")]);
}

#[test]
fn users_and_admins_of_projects_set_their_own_subscriptions() {
    let mut it = Harness::new(1);
    let with = |name: &str, parent: Option<&str>, admin: Option<&str>| {
        let parent = parent.map(|parent| Some(ProjectName::new(parent)));
        let admins = admin.map(|admin| [Arc::from(admin)].into());
        let patch = Box::new(ProjectPatch { parent, admins, ..ProjectPatch::default() });
        ProjectChange { name: ProjectName::new(name), how: ProjectChangeHow::Create { patch } }
    };
    let changes = vec![
        with("lab", None, Some("ana")),
        with("nlp", Some("lab"), Some("bo")),
        with("vision", Some("lab"), None),
    ];
    let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
    it.command(&root(), Command::ChangeProjects(ask)).unwrap();
    let may = |it: &mut Harness, caller: &Caller, payer: Payer| {
        let before = it.control.world().subscriptions().clone();
        let done = subscribe(it, caller, payer.clone(), both());
        let is_done = done.is_ok();
        if !is_done {
            assert_eq!(*it.control.world().subscriptions(), before);
        }
        done.map(|_| ()).map_err(|refusal| match refusal {
            Refusal::NotPermitted { by, .. } => Some(by),
            _ => None,
        })
    };
    let (of_project, admin) = (Permitted::AdminOfProject, Permitted::Admin);
    for (caller, payer, expected) in [
        (ana(), project("lab"), Ok(())),
        (ana(), project("nlp"), Ok(())),
        (bo(), project("nlp"), Ok(())),
        (bo(), project("lab"), Err(Some(of_project))),
        (bo(), project("vision"), Err(Some(of_project))),
        (root(), project("vision"), Ok(())),
        (root(), project("nowhere"), Err(None)),
        (bo(), user("bo"), Ok(())),
        (ana(), user("bo"), Err(Some(admin))),
        (root(), user("ana"), Ok(())),
    ] {
        assert_eq!(may(&mut it, &caller, payer.clone()), expected, "{caller:?} {payer}");
    }
    let set_by = |it: &Harness, payer: &Payer| {
        let found = &it.control.world().subscriptions()[payer];
        (found.owner.user.to_string(), found.rules[0].by_admin)
    };
    assert_eq!(set_by(&it, &project("nlp")), ("bo".to_owned(), false));
    assert_eq!(set_by(&it, &user("ana")), ("root".to_owned(), true));
    // Rules of the user in place of an admin's lose the admin's rights.
    may(&mut it, &ana(), user("ana")).unwrap();
    assert_eq!(set_by(&it, &user("ana")), ("ana".to_owned(), false));
    for command in [
        Command::ReportSpending { all: vec![spent(1, "1", "1")] },
        Command::ReportDigests { all: vec![digest(user("ana"), it.now, 1)] },
    ] {
        assert!(it.command(&ana(), command).is_err(), "only the server reports");
    }
}

#[test]
fn a_subscription_ends_with_its_rules_or_its_project() {
    let mut it = Harness::new(1);
    let name = ProjectName::new("nlp");
    let change = |how| ProjectsAsk {
        changes: vec![ProjectChange { name: name.clone(), how }],
        ..ProjectsAsk::default()
    };
    let create = || ProjectChangeHow::Create { patch: Box::new(ProjectPatch::default()) };
    it.command(&root(), Command::ChangeProjects(change(create()))).unwrap();
    for payer in [project("nlp"), user("ana")] {
        subscribe(&mut it, &root(), payer, both()).unwrap();
    }
    it.restart();
    assert_eq!(it.control.world().subscriptions().len(), 2);
    subscribe(&mut it, &ana(), user("ana"), Vec::new()).unwrap();
    let delete = ProjectChangeHow::Delete { version: None };
    it.command(&root(), Command::ChangeProjects(change(delete))).unwrap();
    it.restart();
    assert!(it.control.world().subscriptions().is_empty());
    it.command(&root(), Command::ChangeProjects(change(create()))).unwrap();
    let to = it.now.after(WEEK);
    let all = vec![digest(project("nlp"), to, 9), digest(user("ana"), to, 9)];
    it.command(&root(), Command::ReportDigests { all }).unwrap();
    assert_eq!(taken(&mut it), []);
}

#[test]
fn messages_count_for_the_user_that_set_the_subscription() {
    let mut it = Harness::new(1);
    subscribe(&mut it, &ana(), user("ana"), both()).unwrap();
    for month in 0..1_005 {
        it.now = it.now.after(Millis::new(1));
        report(&mut it, spent(month, "100", "100"));
    }
    let outbox = it.control.world().outbox();
    assert_eq!((outbox.n_waiting_of(1000), outbox.n_waiting_of(1001)), (1_000, 0));
    assert_eq!(it.control.world().cluster().deliveries.n_dropped, 5);
    subscribe(&mut it, &bo(), user("bo"), both()).unwrap();
    let all = vec![MonthSpending { payer: user("bo"), ..spent(1, "80", "100") }];
    it.command(&root(), Command::ReportSpending { all }).unwrap();
    assert_eq!(it.control.world().outbox().n_waiting_of(1001), 1);
}

#[test]
fn steps_of_budgets_are_exact() {
    let step = |spent: &str, budget: &str| BudgetStep::of(money(spent), money(budget));
    let (most, all) = (Some(BudgetStep::Most), Some(BudgetStep::All));
    for (spent, budget, expected) in [
        ("0", "1", None),
        ("0.799999", "1", None),
        ("0.8", "1", most),
        ("0.999999", "1", most),
        ("1", "1", all),
        ("0", "0", all),
        ("0.000002", "0.000003", None),
        ("799999999999", "1000000000000", None),
        ("800000000000", "1000000000000", most),
    ] {
        assert_eq!(step(spent, budget), expected, "{spent} of {budget}");
    }
}

#[test]
fn a_replay_of_the_journal_makes_the_same_commits() {
    let mut control = Control::create(Policy::fair());
    let now = |n: u64| Timestamp::new(1_000_000 + n);
    let requested = |request: u64, caller: Caller, command| Event::Requested {
        request: RequestId(request),
        caller,
        command,
    };
    let rules = both();
    let id = format!("msg_user_ana_budget80_{}_0", now(3).get());
    let events = [
        Event::ServerStarted { term: Term(1), n_skipped_jobs: 0 },
        requested(1, ana(), Command::Subscribe { payer: user("ana"), rules }),
        requested(2, root(), Command::ReportDigests { all: vec![digest(user("ana"), now(2), 1)] }),
        requested(3, root(), Command::ReportSpending { all: vec![spent(1, "80", "100")] }),
        Event::Delivered { id: Arc::from(id), sent: Sent::Taken },
        requested(4, root(), Command::ReportSpending { all: vec![spent(1, "1", "200")] }),
        requested(5, ana(), Command::Subscribe { payer: user("ana"), rules: Vec::new() }),
    ];
    let (mut commits, mut n_sent) = (Vec::new(), 0);
    for (n, event) in (0..).zip(events) {
        for effect in control.step(now(n), [event]) {
            if let Effect::Commit(commit) = effect {
                commits.push(commit);
            }
        }
        let revision = control.revision();
        let effects = control.step(now(n), [Event::Committed { revision }]);
        n_sent += effects.iter().filter(|it| matches!(it, Effect::Deliver(_))).count();
    }
    assert_eq!((commits.len(), n_sent), (7, 2));
    let mut replay = Replay::create(Policy::fair());
    for commit in commits {
        let made = replay.commit(commit.revision, &commit.journal).expect("the same entries");
        assert_eq!(made, commit);
    }
}
