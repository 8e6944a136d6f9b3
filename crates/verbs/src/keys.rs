//! Every key of `gpool.toml` in one table: name, default and description. The file of `gpool init`,
//! the message about an unknown key, the help page and the manual page use it. `config.rs` reads
//! the keys.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigKey {
    pub name: &'static str,
    /// The default as written in the file, or an example if the default has no written form.
    pub value: &'static str,
    pub is_default: bool,
    /// What the key does, in one line.
    pub about: &'static str,
}

const fn usual(name: &'static str, value: &'static str, about: &'static str) -> ConfigKey {
    ConfigKey { name, value, is_default: true, about }
}

const fn example(name: &'static str, value: &'static str, about: &'static str) -> ConfigKey {
    ConfigKey { name, value, is_default: false, about }
}

/// Every key, in the order of the file.
pub const KEYS: &[ConfigKey] = &[
    example("name", "\"lab1\"", "Name of this node. Without it, the host name."),
    usual("devices", "\"nvml\"", "Devices: nvml, none, sim:8xH100-80G, or a .toml file."),
    usual(
        "gpus",
        "\"all\"",
        "GPUs that new jobs may use: all, 0-3, 0,2. Without it, the last setting.",
    ),
    usual(
        "strategy",
        "\"sequential\"",
        "Choice of GPUs on a node: sequential, random, pack, spread. Without it, the last setting.",
    ),
    usual("ignore_processes", "[]", "Processes (names or IDs) that do not count as use of a GPU."),
    usual("user_connections_max", "256", "Maximum number of connections of one user."),
    usual(
        "user_requests_per_second",
        "20000",
        "Maximum number of requests of one user per second.",
    ),
    usual(
        "user_changes_per_hour",
        "\"32M\"",
        "Maximum size of what changes and new jobs of one user store in an hour.",
    ),
    usual("user_jobs_max", "1000000", "Maximum number of jobs of one user that have not ended."),
    usual(
        "user_environment_max",
        "\"1G\"",
        "Maximum size of environments, scripts and array values stored for one user.",
    ),
    usual(
        "user_dependencies_max",
        "100000",
        "Maximum number of dependencies of all jobs of one user.",
    ),
    usual("job_dependencies_max", "1000", "Maximum number of jobs that one job may wait for."),
    usual("job_processes_max", "16384", "Maximum number of processes and threads of one job."),
    usual(
        "job_output_max",
        "\"1G\"",
        "Maximum size of each output file of a job; the rest is dropped.",
    ),
    usual(
        "job_output_full",
        "\"drop\"",
        "If output reaches its maximum, or the disk is nearly full: drop output, or stop the job.",
    ),
    usual("upload_max", "\"1G\"", "Maximum size of the folder of one job (--upload)."),
    usual(
        "user_files_max",
        "\"20G\"",
        "Maximum size of folders and results (--upload, --download) stored for one user.",
    ),
    usual(
        "results_max",
        "\"1G\"",
        "Maximum size of the results of one task (--download); other files are left out.",
    ),
    usual(
        "file_cache_max",
        "\"10G\"",
        "Maximum size of files of --upload that this node keeps for the next jobs.",
    ),
    usual(
        "keep_output",
        "\"forever\"",
        "Retention time of output after the end of a job: forever, 30d. Files of users stay.",
    ),
    usual(
        "keep_environment",
        "\"7d\"",
        "Retention time of environment and script of an ended job, for gpool retry.",
    ),
    usual("node_tasks_max", "512", "Maximum number of running tasks on this node."),
    usual(
        "node_gpu_tasks_kept",
        "64",
        "Of these, tasks reserved for jobs with GPUs. Without it, at most an eighth.",
    ),
    usual(
        "node_user_tasks_max",
        "409",
        "Of these, maximum for one user. Without it, 80 %; all if the server is not root's.",
    ),
    usual(
        "node_lease",
        "\"15s\"",
        "A node whose agent sends nothing for this time gets no new jobs until it does, 3s to 10m.",
    ),
    usual(
        "users",
        "\"same\"",
        "For gpool agent: accounts that run the jobs of users: same name and ID, name, uid, or a table.",
    ),
    example(
        "address",
        "\"10.0.0.2\"",
        "Name or address of this machine for other machines. Without it, gpool finds one.",
    ),
    usual(
        "isolate_gpus",
        "true",
        "Whether jobs of root's server can open only their own GPUs, where the kernel supports it.",
    ),
    example(
        "container_engine",
        "\"podman\"",
        "Program that runs containers (--image), or none. Without it, the first one found.",
    ),
    usual(
        "loan_deadline",
        "\"30s\"",
        "Longest time until borrowed GPU memory is back at its job, 6s to 10m.",
    ),
    usual(
        "web",
        "\"127.0.0.1:7478\"",
        "Loopback address of the dashboard, or none. Default: any free port if this one is taken.",
    ),
    example(
        "listen",
        "\"0.0.0.0:7443\"",
        "Address for access over the network with HTTPS. Without it, none.",
    ),
    example(
        "tls_certificate",
        "\"/etc/gpool/chain.pem\"",
        "Certificate chain of the site. Without it, certificates of gpool's own authority.",
    ),
    example("tls_key", "\"/etc/gpool/key.pem\"", "Private key of that certificate."),
    usual("tls_names", "[]", "More names of the server in certificates of its own authority."),
    example(
        "notebook_domain",
        "\"notebooks.example.org\"",
        "Domain below which each notebook has a name; DNS has a wildcard for it.",
    ),
    example(
        "oidc_issuer",
        "\"https://id.example.org\"",
        "Identity provider (OpenID Connect) at which users sign in.",
    ),
    example("oidc_client_id", "\"gpool\"", "ID of this server at the provider."),
    example(
        "oidc_client_secret_file",
        "\"/etc/gpool/oidc-secret\"",
        "File with the secret of this server at the provider.",
    ),
    usual("oidc_scopes", "[\"profile\"]", "Scopes to request beside openid."),
    usual("oidc_name_claim", "\"preferred_username\"", "Claim with the name of a user."),
    usual("oidc_groups_claim", "\"groups\"", "Claim with the groups of a user."),
    usual("oidc_admin_groups", "[]", "Groups at the provider with the rights of an admin."),
    usual(
        "oidc_same_names",
        "false",
        "Whether people act as the system users of the same names; or a list of names.",
    ),
    usual("audit_syslog", "false", "Whether the audit log goes to the system's log, too."),
    usual("oidc_domains", "[]", "Domains of names with an @; other such names are refused."),
    example(
        "metrics",
        "\"job\"",
        "Labels of /metrics: low, normal, job. Without it, normal; job up to 200 GPUs.",
    ),
    usual(
        "metrics_names",
        "\"gpool\"",
        "Names of GPU metrics: gpool, or dcgm to add those of dcgm-exporter.",
    ),
    example(
        "traces",
        "\"http://127.0.0.1:4318\"",
        "Receiver of OpenTelemetry traces of jobs (OTLP as JSON). Without it, none are sent.",
    ),
    example(
        "hpc_job_mapping_dir",
        "\"/run/gpool/hpc-jobs\"",
        "Folder for files with the jobs of each GPU, which dcgm-exporter reads. Without it, none.",
    ),
    usual("log_format", "\"text\"", "Format of the log: text or json."),
    usual("journal_entries", "1000000", "Minimum number of journal entries to keep."),
    usual("notify", "[]", "Notifications of jobs without --notify: [\"fail@https://host/path\"]."),
    usual(
        "notify_allow",
        "[]",
        "Local hosts and address ranges that users may notify: [\"127.0.0.0/8\"].",
    ),
    example(
        "mail_server",
        "\"smtps://gpool@mail.example.org\"",
        "Mail server; smtp:// uses STARTTLS. Without it, the program sendmail.",
    ),
    example(
        "mail_password_file",
        "\"/etc/gpool/mail-password\"",
        "File with the password of mail_server's user.",
    ),
    usual("sendmail", "\"/usr/sbin/sendmail\"", "Program that sends mail like sendmail, or none."),
    example(
        "mail_from",
        "\"gpool@example.org\"",
        "Sender of mail. Without it, gpool at this host.",
    ),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// A file that describes every key and sets none.
#[must_use]
pub fn file() -> String {
    let mut text = String::from(
        "# Settings of the gpool server of this machine: gpool up reads them when it starts.\n\
         # Flags override them. Remove the # of a line to set it. All keys: gpool help settings\n",
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
         /etc/gpool/gpool.toml as root. gpool init writes one with every key. Flags of gpool up\n\
         override it. An unknown key is refused. The values here are the defaults.\n",
    );
    for key in KEYS {
        let without = if key.is_default { "" } else { "   (an example)" };
        text.push_str(&format!("\n{} = {}{without}\n    {}\n", key.name, key.value, key.about));
    }
    text
}
