//! Pages that stand alone.

use gpool_web::{Bars, SavedJob, SavedTable, saved_jobs};
use gpool_wire::cost::{Cost, CostRow};
use gpool_wire::usage::UsageRow;
use gpool_wire::waste::WasteRow;
use gpool_wire::{Job, JobCreate, JobRun, Report};

use crate::job::{gpu, history};
use crate::minute;

const HOSTILE: &str =
    "</td><script>alert(1)</script>\"'><img src=//evil.example/x onerror=alert(1)>";

/// Whether a page loads nothing, and shows the hostile name as text.
fn is_alone(page: &str) {
    assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    for markup in
        ["<script", "<img", "<link", "<iframe", "<a ", "src=\"", "href=\"", "url(", "@import"]
    {
        assert!(!page.contains(markup), "{markup}: {page}");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""), "{page}");
    assert!(page.contains("light-dark(") && page.contains("name=\"color-scheme\""), "{page}");
}

#[test]
fn a_table_escapes_all_texts_and_has_bars_beside_its_rows() {
    let heads = ["GROUP".to_owned(), HOSTILE.to_owned()];
    let rows = [vec![HOSTILE.to_owned(), "4.00".to_owned()], vec!["b".to_owned(), String::new()]];
    let bars = Bars { parts: ["busy", "idle", "not measured"], rows: vec![[50.0, 25.0, 25.0]] };
    let table = SavedTable {
        title: HOSTILE,
        about: HOSTILE,
        heads: &heads,
        rows: &rows,
        bars: Some(&bars),
        notes: "one\ntwo <b>",
    };
    let page = table.page();
    is_alone(&page);
    assert!(page.contains("<th scope=\"col\">GROUP</th>") && page.contains(">SHARE</th>"));
    assert_eq!(page.matches("<rect").count(), 3, "the second row has no bar");
    assert!(page.contains("class=\"idle\" x=\"50\" width=\"25\""), "{page}");
    assert!(
        page.contains("</i> idle <i") && page.contains("<p class=\"note\">two &#60;b&#62;</p>")
    );
    let plain = SavedTable { bars: None, ..table }.page();
    assert!(!plain.contains("SHARE") && !plain.contains("<svg"), "{plain}");
}

#[test]
fn reports_have_the_charts_of_the_devices() {
    let job = Job {
        id: "7".to_owned(),
        name: HOSTILE.to_owned(),
        request: JobCreate { note: Some(HOSTILE.to_owned()), ..JobCreate::default() },
        placement: crate::job::placement(),
        run: JobRun { started_at: Some(minute(0)), ..JobRun::default() },
        ..Job::default()
    };
    let (report, gpus, history) = (Report::new(job, minute(5)), [gpu()], history());
    let job = SavedJob { report: &report, events: &[], gpus: &gpus, history: &history };
    let page = saved_jobs(&[job, job], "now", minute(5));
    is_alone(&page);
    assert_eq!(page.matches("<section>").count(), 2);
    assert_eq!(page.matches("aria-label=\"Utilization of lab1:0 H100-80G").count(), 2, "{page}");
}

#[test]
fn bars_are_parts_of_the_largest_row() {
    let usage = |gpu_hours, measured_gpu_hours, busy_gpu_hours| UsageRow {
        gpu_hours,
        measured_gpu_hours,
        busy_gpu_hours,
        ..UsageRow::default()
    };
    let (one, other) = (usage(8.0, 6.0, Some(4.0)), usage(2.0, 0.0, None));
    let bars = Bars::of_usage(&[&one, &other]);
    assert_eq!(bars.rows, [[50.0, 25.0, 25.0], [0.0, 0.0, 25.0]]);
    let cost = Cost { cost: 10.0, idle_cost: Some(4.0), energy_cost: Some(1.0), ..Cost::default() };
    let cost = CostRow { usage: UsageRow::default(), cost };
    assert_eq!(Bars::of_cost(&[&cost]).rows, [[50.0, 40.0, 10.0]]);
    let mut job = Job::default();
    job.usage.gpu_hours = 4.0;
    let waste = WasteRow::new(job, 0.25, minute(0));
    assert_eq!(Bars::of_waste(&[&waste]).rows, [[25.0, 75.0, 0.0]]);
    assert_eq!(Bars::of_usage(&[]).rows, Vec::<[f64; 3]>::new());
}
