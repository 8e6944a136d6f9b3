//! The charts of projects over time, and the tables of sums.

use gpool_model::Timestamp;
use gpool_web::{CostPage, Frame, Order, UsagePage};
use gpool_wire::Time;
use gpool_wire::cost::{Cost, CostRow};
use gpool_wire::usage::{UsageHistory, UsagePoints, UsageRow};

fn points(project: &str, figures: [&[f64]; 3], guaranteed: &[Option<f64>]) -> UsagePoints {
    let [allocated, busy, waiting] = figures.map(|it| it.iter().copied().map(Some).collect());
    let guaranteed = guaranteed.to_vec();
    UsagePoints { project: Some(project.to_owned()), allocated, busy, waiting, guaranteed }
}

fn row(project: &str, gpu_hours: f64, busy: f64) -> UsageRow {
    UsageRow {
        project: Some(project.to_owned()),
        gpu_hours,
        measured_gpu_hours: gpu_hours,
        busy_gpu_hours: Some(busy),
        ..UsageRow::default()
    }
}

fn page(rows: &[UsageRow], course: Option<&UsageHistory>, sort: &str) -> String {
    let (frame, order) = (Frame::default(), Order::of(sort));
    UsagePage { frame, rows, course, by: "project", only: "", range: "24h", order }.page()
}

#[test]
fn projects_have_busy_idle_waiting_and_guaranteed_gpus_on_one_scale() {
    let start = Time(Timestamp::new(1_800_000_000_000));
    let projects = vec![
        points("idle", [&[0.0, 0.0], &[0.0, 0.0], &[0.0, 0.0]], &[Some(1.0), None]),
        points("nlp", [&[2.0, 4.0], &[1.0, 0.0], &[2.0, 0.0]], &[Some(2.0), Some(2.0)]),
        points("unused", [&[0.0, 0.0], &[0.0, 0.0], &[0.0, 0.0]], &[None, None]),
    ];
    // The first hour was not recorded, so it is not drawn.
    let with_gap = |points: UsagePoints| {
        let later = |values: Vec<Option<f64>>| std::iter::once(None).chain(values).collect();
        let UsagePoints { project, allocated, busy, waiting, guaranteed } = points;
        let (allocated, busy) = (later(allocated), later(busy));
        let (waiting, guaranteed) = (later(waiting), later(guaranteed));
        UsagePoints { project, allocated, busy, waiting, guaranteed }
    };
    let projects = projects.into_iter().map(with_gap).collect();
    let allocated = vec![None, Some(2.0), Some(4.0)];
    let cluster = UsagePoints { allocated, ..UsagePoints::default() };
    let course = UsageHistory { start, step_s: 3600, cluster, projects };
    let page = page(&[], Some(&course), "");
    let text = "mean 3.00 allocated, 0.50 busy, 1.00 waited for, 2.00 guaranteed";
    assert!(page.contains(&format!("<b>nlp</b> {text}")), "{page}");
    // Four GPUs are the height of all charts: idle is above busy, and waiting above both.
    let areas = [
        "class=\"busy\" d=\"M0 42.0H300L300 56.0H600L600 56.0H300L300 56.0H0z\"",
        "class=\"idle\" d=\"M0 28.0H300L300 0.0H600L600 56.0H300L300 42.0H0z\"",
        "class=\"wait\" d=\"M0 0.0H300L300 0.0H600L600 0.0H300L300 28.0H0z\"",
        "class=\"guarantee\" d=\"M0 28.0L150 28.0L450 28.0L600 28.0\"",
        // The guarantee of the other project ended after an hour.
        "class=\"guarantee\" d=\"M0 42.0L150 42.0L300 42.0\"",
    ];
    for area in areas {
        assert!(page.contains(area), "{area}: {page}");
    }
    assert!(page.find("<b>nlp</b>") < page.find("<b>idle</b>"), "{page}");
    assert!(!page.contains("<b>unused</b>"), "{page}");
    assert!(page.contains(">−1 h</text>") && page.contains(">4 GPUs</text>"), "{page}");
}

#[test]
fn tables_of_sums_have_totals_an_order_in_the_address_and_rows_that_lead_to_jobs() {
    let rows = [row("nlp", 8.0, 2.0), row("a&b", 4.0, 4.0)];
    let sums = page(&rows, None, "");
    assert!(sums.contains("<th scope=\"row\">Total</th><td>12.00</td><td>6.00</td>"), "{sums}");
    assert!(
        sums.contains("href=\"/usage?by=job&#38;range=24h&#38;only=project%3Da%26b\""),
        "{sums}"
    );
    assert!(sums.contains("href=\"/usage?by=project&#38;range=24h&#38;sort=-busy\""), "{sums}");
    let place = |page: &str, name: &str| page.find(&format!(">{name}</a></th>")).unwrap();
    assert!(place(&sums, "nlp") < place(&sums, "a&#38;b"));
    let sorted = page(&rows, None, "-busy");
    assert!(place(&sorted, "nlp") > place(&sorted, "a&#38;b"));
    let head = "aria-sort=\"descending\"><a href=\"/usage?by=project&#38;range=24h&#38;sort=busy\"";
    assert!(sorted.contains(head), "{sorted}");
    assert!(!page(&rows[..1], None, "").contains("Total"), "one row is its own sum");

    let cost = |name: &str, currency: &str, cost: f64| CostRow {
        usage: row(name, 1.0, 1.0),
        cost: Cost { currency: currency.to_owned(), cost, ..Cost::default() },
    };
    let rows = [cost("nlp", "EUR", 3.0), cost("cv", "EUR", 4.0), cost("cv", "USD", 1.0)];
    let page = CostPage {
        frame: Frame::default(),
        rows: &rows,
        budgets: &[],
        by: "project",
        only: "",
        range: CostPage::MONTH,
        since: "2026-11-01",
        order: Order::of("name"),
    };
    let page = page.page();
    assert!(page.contains("Total</th><td>2.00</td><td>7.00 EUR</td>"), "{page}");
    assert!(page.contains("Total</th><td>1.00</td><td>1.00 USD</td>"), "{page}");
    assert!(page.contains("gpool cost --by project --since 2026-11-01"), "{page}");
    assert!(page.find(">cv</a>") < page.find(">nlp</a>"), "{page}");
}

#[test]
fn all_gpus_of_a_small_cluster_are_the_top_of_their_chart() {
    let start = Time(Timestamp::new(1_800_000_000_000));
    let full = points("nlp", [&[24.0], &[0.0], &[0.0]], &[None]);
    let projects = vec![full.clone()];
    let course = UsageHistory { start, step_s: 3600, cluster: full, projects };
    let page = page(&[], Some(&course), "");
    assert!(page.contains(">24 GPUs</text>") && page.contains(">12 GPUs</text>"), "{page}");
}

#[test]
fn no_points_have_no_charts() {
    assert!(!page(&[], Some(&UsageHistory::default()), "").contains("GPUs over time"));
}
