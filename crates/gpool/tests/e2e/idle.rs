//! Kinds of jobs, and jobs that do not use their GPUs.

use crate::harness::Cluster;

#[test]
fn a_job_has_a_kind_and_a_time_after_which_it_is_idle() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let of = |flags: &[&str]| {
        let words = [&["--hold", "--gpus", "1"], flags, &["--", "true"]].concat();
        let job = cluster.job(&cluster.submit(words));
        (job.kind, job.idle_after)
    };
    let is = |kind: &str, after: Option<f64>| (kind.to_owned(), after);
    assert_eq!(of(&[]), is("train", None));
    assert_eq!(of(&["--kind", "notebook"]), is("notebook", Some(1800.0)));
    assert_eq!(of(&["--kind", "shell"]), is("notebook", Some(1800.0)));
    assert_eq!(of(&["--kind", "serve", "--idle-after", "2h"]), is("serve", Some(7200.0)));
    assert_eq!(of(&["--kind", "notebook", "--idle-after", "off"]), is("notebook", None));
    let submit = |flags: &[&str]| {
        cluster.gpool([&["submit", "--gpus", "1"], flags, &["--", "true"]].concat())
    };
    submit(&["--kind", "game"]).refused(2, &["game", "train, notebook, serve and data"]);
    submit(&["--idle-after", "soon"]).refused(2, &["soon"]);
    let script = "#!/bin/sh\n# GPOOL --gpus 1 --kind data --idle-after 5m --array 0-1\ntrue\n";
    std::fs::write(cluster.work().join("job.sh"), script).unwrap();
    let id = cluster.submit(["--hold", "job.sh"]);
    let job = cluster.job(&format!("{id}.1"));
    assert_eq!((job.kind, job.idle_after), is("data", Some(300.0)));
    cluster.gpool(["edit", &id, "--kind", "notebook", "--idle-after", "1h"]).ok();
    let job = cluster.job(&id);
    assert_eq!((job.kind, job.idle_after), is("notebook", Some(3600.0)));
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("notebook") && shown.contains("1h"), "{shown}");
    let listed = cluster.gpool(["queue", "--filter", "kind=notebook", "--json"]).json();
    let items = listed["items"].as_array().unwrap();
    assert!(!items.is_empty() && items.iter().all(|it| it["kind"] == "notebook"), "{listed}");
}
