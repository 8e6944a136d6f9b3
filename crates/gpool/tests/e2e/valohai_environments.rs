//! The pools for the environments of a valohai.yaml.

use std::fs;

use crate::valohai::{project, vh};

const STEP: &str = "\
- step:
    name: train
    image: busybox
    command: echo trained
    environment: cloud-gpu
";

#[test]
fn a_file_of_the_project_names_pools_for_environments() {
    let cluster = project(STEP);
    let run = |words: &[&str]| {
        vh(&cluster, &[&["exec", "run", "train", "--no-image", "--adhoc"], words].concat(), None)
    };
    let settings = |text: &str| fs::write(cluster.path("project/gpool.toml"), text).unwrap();
    run(&[]).refused(2, &["no pool for the environment \"cloud-gpu\"", "gpool.toml"]);

    settings("[environments]\ncloud-gpu = \"default\"\nother = \"none\"\n");
    let id = run(&[]).ok();
    assert_eq!(cluster.until_ended(id.trim()).state.as_str(), "succeeded");
    assert_eq!(cluster.job(id.trim()).request.pool.as_deref(), Some("default"));
    // The flags override the file.
    run(&["--environment-pool", "cloud-gpu=absent"]).refused(6, &["no pool \"absent\""]);
    run(&["--environment", "missing"]).refused(2, &["environment \"missing\""]);

    settings("[environments]\ncloud-gpu = \"absent\"\n");
    run(&[]).refused(6, &["no pool \"absent\""]);
    settings("[environments]\n\ncloud-gpu = 3\n");
    run(&[]).refused(2, &["gpool.toml, line 3"]);
    settings("port = 80\n");
    run(&[]).refused(2, &["gpool.toml, line 1", "port", "one table, environments"]);
}
