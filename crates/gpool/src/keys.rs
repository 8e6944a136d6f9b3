//! Every key of `gpool.toml` in one table: name, default and description. The file of `gpool init`,
//! the message about an unknown key, the help page and the manual page use it. `config.rs` reads
//! the keys.

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The default as written in the file, or an example if the default has no written form.
    pub value: &'static str,
    /// Whether `value` is the default.
    pub is_default: bool,
    /// What the key does, in one line.
    pub about: &'static str,
}

const fn usual(name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, value, is_default: true, about }
}

const fn example(name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, value, is_default: false, about }
}

/// Every key, in the order of the file.
pub const KEYS: &[Key] = &[
    example("name", "\"lab1\"", "What this node is called; without it, as the host is."),
    usual("devices", "\"nvml\"", "Where GPUs come from: nvml, none, sim:8xH100-80G, or a file."),
    usual("gpus", "\"all\"", "GPUs that new jobs may use: all, 0-3, 0,2. Without it, as it was."),
    usual(
        "strategy",
        "\"sequential\"",
        "Which GPUs are given out first: sequential, random, pack, spread. Without it, as it was.",
    ),
    usual("ignore_processes", "[]", "Programs (names or ids) that do not count as use of a GPU."),
    usual("user_connections_max", "256", "Connections that one user may have at once."),
    usual("user_requests_per_second", "20000", "Requests that one user may send a second."),
    usual("user_jobs_max", "1000000", "Jobs of one user that have not ended."),
    usual(
        "user_environment_max",
        "\"1G\"",
        "Size of environments, scripts and array values stored for one user's jobs.",
    ),
    usual(
        "user_dependencies_max",
        "100000",
        "Dependencies that the jobs of one user name together.",
    ),
    usual("job_dependencies_max", "1000", "Jobs that one job may wait for."),
    usual("job_processes_max", "16384", "Processes and threads that one job may have at once."),
    usual("job_output_max", "\"1G\"", "Size at which each file of a job's output is cut."),
    usual(
        "keep_output",
        "\"forever\"",
        "How long a job's output is kept after its end: forever, 30d. Files that users name stay.",
    ),
    usual(
        "keep_environment",
        "\"7d\"",
        "How long an ended job's environment and script are kept for gpool retry.",
    ),
    usual("node_tasks_max", "512", "Tasks that run on this node at once."),
    usual(
        "node_gpu_tasks_kept",
        "64",
        "Of these, tasks kept for jobs with GPUs. Without it, at most an eighth.",
    ),
    usual(
        "node_user_tasks_max",
        "409",
        "Of these, tasks that one user may have. Without it, 80 %; all without root.",
    ),
    usual("journal_entries", "1000000", "Entries of the journal that are kept at least."),
    usual("notify", "[]", "Who is told of jobs that name nobody: [\"fail@https://host/path\"]."),
    usual(
        "notify_allow",
        "[]",
        "Hosts and ranges inside this machine that users may name to be told: [\"127.0.0.0/8\"].",
    ),
    usual(
        "sendmail",
        "\"/usr/sbin/sendmail\"",
        "Program that takes mail about jobs as sendmail does, or none.",
    ),
    example(
        "mail_from",
        "\"gpool@example.org\"",
        "Address that mail comes from; without it, gpool at this host.",
    ),
];

/// The names of all keys.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// A file that describes every key and sets none.
#[must_use]
pub fn file() -> String {
    let mut text = String::from(
        "# Settings of the gpool server of this machine: gpool up reads them when it starts.\n\
         # Flags go before them. Remove the # of a line to set it. All keys: gpool help settings\n",
    );
    for key in KEYS {
        let without = if key.is_default { "" } else { " (an example)" };
        text.push_str(&format!("\n# {}{without}\n# {} = {}\n", key.about, key.name, key.value));
    }
    text
}

/// The page of `gpool help settings`.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "gpool up reads the file that GPOOL_CONFIG names, else ~/.config/gpool/gpool.toml, or\n\
         /etc/gpool/gpool.toml as root. gpool init writes one with every key. Flags of up go\n\
         before it; a key that is none of these is refused. What stands here is so without\n\
         the key.\n",
    );
    for key in KEYS {
        let without = if key.is_default { "" } else { "   (an example)" };
        text.push_str(&format!("\n{} = {}{without}\n    {}\n", key.name, key.value, key.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use gpool_agent::AgentConfig;
    use gpool_model::{DeviceStrategy, NodeName};
    use gpool_server::Limits;

    use super::*;
    use crate::config::Config;

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
        assert_eq!(config.user_dependencies_max, Some(limits.dependencies));
        assert_eq!(config.job_dependencies_max, Some(limits.job_dependencies));
        let agent = AgentConfig::new("/nowhere", NodeName::new("lab1"));
        let agent = agent.expect("this program is there");
        assert_eq!(config.job_output_max, Some(agent.output_limit));
        assert_eq!(config.keep_output, None);
        assert_eq!(config.keep_environment, Some(gpool_server::ENVIRONMENT_KEPT_USUALLY));
        assert_eq!(config.user_environment_max, Some(limits.stored));
        assert_eq!(config.node_tasks_max.map(u32::from), Some(agent.tasks_max));
        let kept = AgentConfig::gpu_tasks_kept(agent.tasks_max);
        assert_eq!(config.node_gpu_tasks_kept, Some(kept));
        let user = AgentConfig::user_tasks_max(agent.tasks_max);
        assert_eq!(config.node_user_tasks_max.map(u32::from), Some(user));
        assert_eq!(config.job_processes_max.map(u32::from), Some(AgentConfig::PIDS_MAX));
        let usual = gpool_store::Options::default();
        assert_eq!(config.journal_entries, Some(usual.journal_keep));
        let (word, _) = DeviceStrategy::ALL[0];
        assert_eq!(config.strategy.as_deref(), Some(word));
        assert_eq!(
            (config.devices.as_deref(), config.gpus.as_deref()),
            (Some("nvml"), Some("all"))
        );
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
}
