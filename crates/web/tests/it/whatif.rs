//! The page that simulates changes.

use gpool_web::{Frame, Order, Supposed, WhatIf};
use gpool_wire::{SimulatedCourse, SimulatedFigures, SimulatedPairs, Simulation};

use crate::minute;

fn supposed() -> Supposed {
    Supposed {
        nodes: "2".to_owned(),
        gpus: "4".to_owned(),
        model: "H100-80G".to_owned(),
        // Without a number of GPUs, it is no change.
        project: "red".to_owned(),
        preset: "fifo".to_owned(),
        more: " cancel 7 \n\nhold 8".to_owned(),
        ahead: "8h".to_owned(),
        past: "5 years".to_owned(),
        ..Supposed::default()
    }
}

fn page(simulation: Option<&Simulation>, refused: &[String]) -> String {
    let page = WhatIf {
        frame: Frame::default(),
        supposed: &supposed(),
        address: "/whatif",
        order: Order::default(),
        models: &["H100-80G".to_owned()],
        projects: &["red".to_owned()],
        nodes: &[],
        preset: "fair",
        simulation,
        refused,
    };
    page.page()
}

#[test]
fn complete_fields_become_changes() {
    let ask = supposed().ask();
    let changes = ["add 2 nodes x 4 H100-80G", "policy preset=fifo", "cancel 7", "hold 8"];
    assert_eq!(ask.supposed, changes);
    assert_eq!(ask.horizon, Some("8h".into()));
    assert_eq!(ask.past, None, "only the times of the form");
}

#[test]
fn figures_are_compared_and_better_or_worse() {
    let before = SimulatedFigures {
        n_gpus: 4,
        wait_p50_s: Some(600.0),
        wait_p90_s: None,
        n_waiting: 3,
        utilization: Some(0.905),
        n_preempted: 0,
    };
    let after = SimulatedFigures {
        n_gpus: 12,
        wait_p50_s: Some(60.0),
        wait_p90_s: Some(3600.0),
        n_waiting: 0,
        utilization: Some(0.5),
        n_preempted: 2,
    };
    let paired = SimulatedPairs {
        n_jobs: 30,
        n_sooner: 20,
        n_later: 1,
        mean_s: -540.0,
        interval_s: Some([-600.0, -480.0]),
    };
    let course = SimulatedCourse {
        since: minute(0),
        until: minute(480),
        n_jobs: 30,
        before,
        after: Some(after),
        paired: Some(paired),
        warnings: vec!["Only <few> jobs.".to_owned()],
    };
    let made = Simulation {
        as_of: minute(0),
        until: Some(minute(480)),
        supposed: supposed().changes(),
        jobs: Vec::new(),
        n_touched: 0,
        projects: Vec::new(),
        n_beyond: 0,
        queue: Some(course),
        past: None,
    };
    let page = page(Some(&made), &[]);
    let row = |name: &str, was: &str, is: &str, style: &str, by: &str| {
        let row = format!(
            "<tr><th scope=\"row\">{name}</th><td>{was}</td><td>{is}</td>\
             <td class=\"{style}\">{by}</td></tr>"
        );
        assert!(page.contains(&row), "{row}\n{page}");
    };
    row("Wait, median", "10 min", "1 min", "free", "−9 min");
    row("Wait, 90th percentile", "not within it", "1 h", "free", "");
    row("Jobs that do not start", "3", "0", "free", "−3");
    row("GPUs in use", "90.5 %", "50.0 %", "soft", "−40.5 points");
    row("Preemptions", "0", "2", "out", "+2");
    assert!(page.contains("Present queue, next 8 h"), "{page}");
    let verdict = "Job by job, jobs wait 9 min less on average (95 % confidence interval −10 min \
                   to −8 min): 20 start over a minute sooner, 1 later, 9 neither.";
    assert!(page.contains(verdict), "{page}");
    assert!(page.contains("Only &#60;few&#62; jobs."), "{page}");
    let command = "gpool simulate --if &#39;add 2 nodes x 4 H100-80G&#39;";
    assert!(page.contains(command), "{page}");
}

#[test]
fn a_refusal_is_shown_beside_the_form() {
    let page = page(None, &["there is no project <red>".to_owned()]);
    assert!(page.contains("role=\"alert\"><p>there is no project &#60;red&#62;"), "{page}");
    assert!(page.contains("<textarea name=\"more\""), "{page}");
}
