//! Every key of `gpool.toml` in one table: name, default and description. The file of `gpool init`,
//! the message about an unknown key, the help page and the manual page use it. `config.rs` reads
//! the keys.

use gpool_agent::AgentConfig;
use gpool_model::{DeviceStrategy, NodeName};
use gpool_server::Limits;

use gpool::config::Config;
use gpool_verbs::keys::{file, names};

/// The file with every line uncommented.
fn all_set() -> String {
    let set = |line: &str| {
        let bare = line.trim_start_matches("# ");
        let is_key = names().any(|name| bare.starts_with(&format!("{name} = ")));
        format!("{}\n", if is_key { bare } else { line })
    };
    file().lines().map(set).collect()
}

#[test]
fn the_file_as_written_sets_nothing() {
    assert_eq!(Config::parse(&file(), "f"), Ok(Config::default()));
}

#[test]
fn the_documented_defaults_are_the_real_ones() {
    let config = Config::parse(&all_set(), "f").expect("every key is known");
    let limits = Limits::default();
    assert_eq!(config.user_connections_max.map(u32::from), Some(limits.connections));
    assert_eq!(config.user_requests_per_second.map(u32::from), Some(limits.requests));
    assert_eq!(config.user_jobs_max, Some(limits.jobs));
    assert_eq!(config.user_changes_per_hour, Some(limits.changes));
    assert_eq!(config.user_dependencies_max, Some(limits.dependencies));
    assert_eq!(config.job_dependencies_max, Some(limits.job_dependencies));
    let agent = AgentConfig::new("/nowhere", NodeName::new("lab1"));
    let agent = agent.expect("this program is there");
    assert_eq!(config.job_output_max, Some(agent.output_limit));
    assert_eq!(config.keep_output, None);
    assert_eq!(config.upload_max, Some(limits.upload));
    assert_eq!(config.user_files_max, Some(limits.files));
    assert_eq!(config.results_max, Some(agent.results_max));
    assert_eq!(config.file_cache_max, Some(agent.file_cache_max));
    assert_eq!(config.keep_environment, Some(gpool_server::ENVIRONMENT_KEPT_USUALLY));
    assert_eq!(config.node_lease, Some(gpool_server::NODE_LEASE_USUALLY));
    assert_eq!(config.user_environment_max, Some(limits.stored));
    assert_eq!(config.node_tasks_max.map(u32::from), Some(agent.tasks_max));
    let kept = AgentConfig::reserved_gpu_tasks(agent.tasks_max);
    assert_eq!(config.node_gpu_tasks_kept, Some(kept));
    let user = AgentConfig::user_tasks_max(agent.tasks_max);
    assert_eq!(config.node_user_tasks_max.map(u32::from), Some(user));
    assert_eq!(config.job_processes_max.map(u32::from), Some(AgentConfig::PIDS_MAX));
    assert_eq!(config.isolate_gpus, Some(agent.isolate_gpus));
    let usual = gpool_store::StoreOptions::default();
    assert_eq!(config.journal_entries, Some(usual.journal_keep));
    let (word, _) = DeviceStrategy::ALL[0];
    assert_eq!(config.strategy.as_deref(), Some(word));
    assert_eq!((config.devices.as_deref(), config.gpus.as_deref()), (Some("nvml"), Some("all")));
    assert!(config.notify.is_empty() && config.notify_allow.is_empty());
    assert!(config.ignore_processes.is_empty());
}

#[test]
fn every_key_that_is_read_is_in_the_table() {
    // The error message lists the keys that the reader knows.
    let error = toml::from_str::<Config>("no_such_key = 1").expect_err("it is none");
    let message = error.message().to_owned();
    let said = message.split('`').skip(3).step_by(2);
    let read: std::collections::BTreeSet<&str> = said.collect();
    assert_eq!(read, names().collect(), "{message}");
}
