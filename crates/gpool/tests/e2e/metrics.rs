//! Metrics that jobs report in their output, and their use of hosts over time.

use gpool_model::Timestamp;
use gpool_wire::Time;
use gpool_wire::job_metrics::JobMetrics;

use crate::harness::{Cluster, until, until_so};
use crate::http::Http;

const LINE: &str = r#"{"gpool": {"metrics": {"loss": 0.31, "lr": 1e-5}, "step": 120}}"#;

fn values(metrics: &[(&str, f64)]) -> std::collections::BTreeMap<String, f64> {
    metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// The recorded minutes of a job.
fn minutes(cluster: &Cluster, id: &str) -> JobMetrics {
    let job = cluster.job(id);
    let before = Timestamp::new(job.submitted_at.0.get() - 3_600_000);
    cluster.client().job_metrics(id, Some(Time(before)), Some(10)).unwrap()
}

#[test]
fn a_job_reports_metrics_in_its_output() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let go = cluster.path("go");
    let script = format!(
        "echo '{LINE}'; while [ ! -e {} ]; do sleep 0.1; done; \
         echo '{{\"gpool\":{{\"metrics\":{{\"loss\":0.25}}}}}}'",
        go.display()
    );
    let id = cluster.sh(&[], &script);
    let expected = values(&[("loss", 0.31), ("lr", 1e-5), ("step", 120.0)]);
    until_so("its metrics are known", || cluster.job(&id).usage.metrics == expected);
    let page = cluster.gpool(["show", &id]).ok();
    assert!(page.contains("loss 0.31, lr 1e-5, step 120"), "{page}");
    let all = cluster.client().job_metrics(&id, None, None).unwrap();
    let loss = all.metrics.iter().find(|it| it.name == "loss").unwrap();
    assert_eq!(loss.points.iter().flatten().next(), Some(&0.31), "{all:?}");
    std::fs::write(go, "").unwrap();
    cluster.until_ended(&id);
    // The last value comes with the end, even within a second of the one before.
    assert_eq!(cluster.job(&id).usage.metrics["loss"], 0.25);
    let report = cluster.gpool(["report", &id]).ok();
    assert!(report.contains("loss 0.25, lr 1e-5, step 120"), "{report}");
    assert!(cluster.stdout_of(&id).starts_with(LINE), "the log keeps the line");
}

#[test]
fn hostile_metrics_harm_nothing() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let script = "head -c 4000000 /dev/urandom; echo; \
        yes '{\"gpool\":{\"metrics\":{\"a\":1}}}' | head -n 100000; \
        seq -f '{\"gpool\":{\"metrics\":{\"n%.0f\":1}}}' 1 100000; \
        printf '{\"gpool\":{\"metrics\":{'; yes '\"x\":1,' | head -c 4000000; echo; \
        echo '{\"gpool\":{\"metrics\":{\"a\":NaN}}}'; sleep 1.1; \
        echo '{\"gpool\":{\"metrics\":{\"a\":2}}}'; exit 3";
    let id = cluster.sh(&[], script);
    let job = cluster.until_ended(&id);
    assert_eq!(job.run.exit_code, Some(3));
    let metrics = cluster.job(&id).usage.metrics;
    assert!(metrics.len() <= 32, "{metrics:?}");
    assert_eq!(metrics["a"], 2.0);
    let errors = cluster.job(&cluster.sh(&[], "true")).usage.metrics;
    assert_eq!(errors.len(), 0);
}

#[test]
fn recorded_minutes_of_a_job_survive_a_kill_of_the_server() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    // Some CPU time in each second, and not that of a whole core.
    let id = cluster.sh(&[], &format!("echo '{LINE}'; while :; do sleep 0.1; done"));
    let is_known = |points: &[Option<f64>]| points.iter().any(Option::is_some);
    let recorded = until("a minute is recorded", || {
        // A minute that ends soon after the start has no rate of CPU time yet.
        let has_cpu = cluster.job(&id).usage.live.is_some_and(|live| live.cpu_s.is_some());
        let all = minutes(&cluster, &id);
        let has_metrics = all.metrics.first().is_some_and(|it| is_known(&it.points));
        (has_metrics && (is_known(&all.cpu) || !has_cpu)).then_some(all)
    });
    assert!(recorded.step_s >= 60, "{recorded:?}");
    cluster.kill();
    cluster.up();
    let expected = values(&[("loss", 0.31), ("lr", 1e-5), ("step", 120.0)]);
    assert_eq!(cluster.job(&id).usage.metrics, expected);
    assert!(is_known(&minutes(&cluster, &id).metrics[0].points));
    cluster.gpool(["cancel", "--yes", &id]).ok();
    cluster.until_ended(&id);
}

#[test]
fn a_gpu_has_each_second_of_the_last_minutes() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["sim", "utilize", "0", "75"]).ok();
    let seen = until("some seconds have passed", || {
        let now = gpool_cli::render::clock::now().0.get();
        let since = Some(Time(Timestamp::new(now - 60_000)));
        let asked = gpool_wire::usage::GpuHistoryParams { since, ..Default::default() };
        let history = cluster.client().gpu_history(&asked).unwrap();
        let known: Vec<f64> = history.gpus[0].utilization.iter().flatten().copied().collect();
        (known.len() >= 4 && known.last() == Some(&0.75)).then_some(history.step_s)
    });
    assert_eq!(seen, 1, "long before the first minute is recorded");
}

#[test]
fn gpu_time_and_its_cost_are_counted() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["policy", "set", "prices=currency=EUR,gpu=1,model.h100=2.5"]).ok();
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    let http = Http::new(&cluster);
    let sum = |text: &str, name: &str| -> Option<f64> {
        text.lines().find(|line| line.starts_with(name))?.rsplit_once(' ')?.1.parse().ok()
    };
    let counted = until("its GPU time is counted", || {
        let text = http.get("/metrics").body;
        let held = sum(&text, "gpool_gpu_held_seconds_total{")?;
        Some((held, sum(&text, "gpool_cost_total{")?, text))
    });
    let (held, cost, text) = counted;
    assert!((cost * 3600.0 - held * 2.5).abs() < 1e-6, "{text}");
    let labels = r#"{project="default",model="H100-80G",currency="EUR"}"#;
    assert!(text.contains(&format!("gpool_cost_total{labels}")), "{text}");
}
