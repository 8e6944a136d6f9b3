//! The settings of the server: `gpool.toml`. Flags override them.

use gpool::config::{Config, OutputFull};
use gpool_model::{Bytes, Millis};

#[test]
fn settings_are_read_and_unknown_keys_are_refused_with_the_nearest() {
    let config = Config::parse("devices = \"nvml\"\nignore_processes = [\"Xorg\"]\n", "f");
    let config = config.expect("both keys are known");
    assert_eq!(config.devices.as_deref(), Some("nvml"));
    assert_eq!(config.ignore_processes, ["Xorg"]);
    let failure = Config::parse("name = \"lab1\"\ndevces = \"nvml\"\n", "f").expect_err("a slip");
    let text = failure.text(false);
    assert!(text.starts_with("error: f:2: there is no setting \"devces\"\n"), "{text}");
    assert!(text.contains("try  devices = …\n  GP0229"), "{text}");
    assert!(gpool_verbs::keys::names().all(|name| text.contains(name)), "{text}");
    let limits = Config::parse("user_jobs_max = 0\nuser_connections_max = 8\n", "f");
    assert_eq!(limits.expect("both are known").user_jobs_max, Some(0));
    let jobs = Config::parse("job_output_max = \"64M\"\njob_processes_max = 99\n", "f");
    let jobs = jobs.expect("both are known");
    assert_eq!(jobs.job_output_max, Some(Bytes::from_mib(64)));
    assert_eq!(jobs.job_processes_max.map(u32::from), Some(99));
    assert!(Config::parse("job_output_max = \"much\"\n", "f").is_err());
    let stops = Config::parse("job_output_full = \"stop\"\n", "f");
    assert_eq!(stops.expect("it is known").job_output_full, Some(OutputFull::Stop));
    assert!(Config::parse("job_output_full = \"halt\"\n", "f").is_err());
    let keep = |text: &str| Config::parse(&format!("keep_output = {text:?}\n"), "f");
    let kept = keep("30d").expect("it is known").keep_output;
    assert_eq!(kept, Some(Millis::from_hours(30 * 24)));
    assert_eq!(keep("forever").expect("it is known").keep_output, None);
    assert!(keep("59m").is_err() && keep("long").is_err());
    let failure = Config::parse("node_tasks_max = 0\n", "f").expect_err("nothing could run");
    insta::assert_snapshot!(failure.text(false), @r#"
    error: f:1: node_tasks_max: it is the number 0
      try  "node_tasks_max": a whole number from 1 to 4294967295, for example 5
           gpool help settings
      GP0229 · gpool help GP0229
    "#);
    let keep = |text: &str| Config::parse(&format!("keep_environment = {text:?}\n"), "f");
    assert_eq!(keep("1d").expect("it is known").keep_environment, Some(Millis::from_hours(24)));
    assert!(keep("59m").is_err() && keep("forever").is_err());
    let most = Config::parse("user_environment_max = \"64M\"\n", "f").expect("it is known");
    assert_eq!(most.user_environment_max, Some(Bytes::from_mib(64)));
    assert!(Config::parse("user_connections_max = 0\n", "f").is_err(), "nobody could ask");
    assert!(Config::parse("user_requests_per_second = -1\n", "f").is_err());
    let failure = Config::parse("gpus = 3\n", "f").expect_err("a number");
    assert_eq!(failure.what(), "f:1: gpus: it is the number 3");
    assert!(Config::parse("gpus = ", "f").is_err());
}
