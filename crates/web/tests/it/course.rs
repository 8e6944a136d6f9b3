//! The charts of projects over time.

use gpool_model::Timestamp;
use gpool_web::{Course, Frame, UsagePage};
use gpool_wire::Time;
use gpool_wire::usage::UsageRow;

fn at(minutes: u64) -> Time {
    Time(Timestamp::new(1_800_000_000_000 + minutes * 60_000))
}

fn row(project: &str, hour: u64, hours: [f64; 3], guaranteed: Option<f64>) -> UsageRow {
    let [allocated, busy, waited] = hours;
    UsageRow {
        start: at(hour * 60),
        project: Some(project.to_owned()),
        gpu_hours: allocated,
        measured_gpu_hours: allocated,
        busy_gpu_hours: Some(busy),
        waited_gpu_hours: waited,
        guaranteed_gpu_hours: guaranteed,
        ..UsageRow::default()
    }
}

fn page(rows: &[UsageRow], now: Time) -> String {
    let course = Some(Course { rows, step_s: 3600, now });
    let page = UsagePage { frame: Frame::default(), rows, course, by: "project", range: "24h" };
    page.page()
}

#[test]
fn projects_have_allocated_busy_guaranteed_and_waited_time() {
    let rows = [
        row("nlp", 0, [2.0, 1.0, 2.0], Some(2.0)),
        // Half of the last hour is over.
        row("nlp", 1, [2.0, 0.0, 0.0], Some(1.0)),
        row("idle", 0, [0.0, 0.0, 0.0], Some(1.0)),
    ];
    let page = page(&rows, at(90));
    let text = "GPUs on average: 3.00 allocated, 0.50 busy, 1.00 waited for, 2.00 guaranteed";
    assert!(page.contains(&format!("<b>nlp</b> {text}")), "{page}");
    // The largest are 4 GPUs, the height of all charts.
    let areas = [
        "class=\"lent\" d=\"M0 48L0 0.0L300 0.0L300 0.0L600 0.0L600 48z\"",
        "class=\"plan\" d=\"M0 48L0 24.0L300 24.0L300 0.0L600 0.0L600 48z\"",
        "class=\"run\" d=\"M0 48L0 36.0L300 36.0L300 48.0L600 48.0L600 48z\"",
        "class=\"guarantee\" d=\"M0 24.0L300 24.0L300 24.0L600 24.0\"",
        // The guarantee of the other project ended after an hour.
        "class=\"guarantee\" d=\"M0 36.0L300 36.0\"",
    ];
    for area in areas {
        assert!(page.contains(area), "{area}: {page}");
    }
    assert!(page.find("<b>nlp</b>") < page.find("<b>idle</b>"), "{page}");
    assert!(page.contains("<th scope=\"col\">Guaranteed</th>"), "{page}");
}

#[test]
fn no_rows_have_no_charts() {
    assert!(!page(&[], at(0)).contains("GPUs over time"));
}
