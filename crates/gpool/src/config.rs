//! The settings of the server: `gpool.toml`. Flags override them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gpool_agent::UserRule;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_model::escape::{repeated, unknown_name};
use gpool_model::{Bytes, Millis};
use gpool_server::{
    Allowed, BadRelay, Detail, MailSettings, NotifySettings, ProviderConfig, ProviderSettings,
    Relay, SameNames, TraceUrl, WebAddress,
};
use gpool_wire::metrics::MetricNames;
use gpool_wire::notify::is_mail_address;
use serde::{Deserialize, Deserializer};

use crate::log::LogFormat;
use gpool_verbs::keys;
use gpool_verbs::toml_file;

/// `oidc_same_names`: a flag, or a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "true, false, or a list of names")]
pub enum SameNamesSetting {
    /// Of all people, or none.
    All(bool),
    Only(Vec<String>),
}

impl Default for SameNamesSetting {
    fn default() -> Self {
        Self::All(false)
    }
}

/// `users`: a word, or a table of accounts by user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "\"same\", \"name\", \"uid\", or a table of accounts by user")]
pub enum UsersSetting {
    Word(UsersWord),
    Accounts(BTreeMap<String, String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsersWord {
    Same,
    Name,
    Uid,
}

impl UsersSetting {
    /// The rule for an agent.
    #[must_use]
    pub fn rule(&self) -> UserRule {
        match self {
            Self::Word(UsersWord::Same) => UserRule::Same,
            Self::Word(UsersWord::Name) => UserRule::Name,
            Self::Word(UsersWord::Uid) => UserRule::Id,
            Self::Accounts(accounts) => UserRule::Map(accounts.clone()),
        }
    }
}

/// The effect on a job when its output can't be stored any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFull {
    /// It goes on without further output.
    Drop,
    Stop,
}

/// The keys of the file; an unknown key is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of the node, as `up --name`.
    pub name: Option<String>,
    /// The devices, as `up --devices`.
    pub devices: Option<String>,
    /// The GPUs that jobs may use, as `up --gpus`.
    pub gpus: Option<String>,
    /// The order of use of GPUs, as `up --strategy`.
    pub strategy: Option<String>,
    /// Processes that do not count as use of a GPU, as `up --ignore-processes`.
    #[serde(default)]
    pub ignore_processes: Vec<String>,
    /// Most connections of one user at the same time.
    pub user_connections_max: Option<NonZeroU32>,
    /// Most requests of one user per second.
    pub user_requests_per_second: Option<NonZeroU32>,
    /// Most bytes that the changes of one user store in an hour: `32M`.
    #[serde(default, deserialize_with = "size")]
    pub user_changes_per_hour: Option<Bytes>,
    /// Most jobs of one user that have not ended.
    pub user_jobs_max: Option<u64>,
    /// Most dependencies of all jobs of one user together.
    pub user_dependencies_max: Option<u64>,
    pub job_dependencies_max: Option<u64>,
    /// Most processes and threads of one job.
    pub job_processes_max: Option<NonZeroU32>,
    /// Size at which each output file of a job is cut: `1G`.
    #[serde(default, deserialize_with = "size")]
    pub job_output_max: Option<Bytes>,
    /// The effect on a job when its output can't be stored any more.
    pub job_output_full: Option<OutputFull>,
    /// Retention of a job's output after its end: `30d`. At least 1 hour.
    #[serde(default, deserialize_with = "age")]
    pub keep_output: Option<Millis>,
    /// Retention of the data for `retry` after a job's end: `7d`. At least 1 hour.
    #[serde(default, deserialize_with = "span")]
    pub keep_environment: Option<Millis>,
    /// Most bytes of environments and scripts stored for the jobs of one user: `1G`.
    #[serde(default, deserialize_with = "size")]
    pub user_environment_max: Option<Bytes>,
    /// Most bytes of one working folder of `--upload`: `1G`.
    #[serde(default, deserialize_with = "size")]
    pub upload_max: Option<Bytes>,
    /// Most bytes of working folders and results stored for one user: `20G`.
    #[serde(default, deserialize_with = "size")]
    pub user_files_max: Option<Bytes>,
    /// Most bytes of the results of one task: `1G`.
    #[serde(default, deserialize_with = "size")]
    pub results_max: Option<Bytes>,
    /// Most bytes of files that the node keeps for the next working folders: `10G`.
    #[serde(default, deserialize_with = "size")]
    pub file_cache_max: Option<Bytes>,
    /// Most tasks that run on the node at the same time.
    pub node_tasks_max: Option<NonZeroU32>,
    /// Slots of these that are reserved for jobs with GPUs.
    pub node_gpu_tasks_kept: Option<u32>,
    /// Most slots of these for one user.
    pub node_user_tasks_max: Option<NonZeroU32>,
    /// How long an agent may send nothing until its node gets no new jobs: `15s`.
    #[serde(default, deserialize_with = "node_lease")]
    pub node_lease: Option<Millis>,
    /// Which accounts run the jobs of the server's users, on the machine of `gpool agent`.
    pub users: Option<UsersSetting>,
    /// Name or IP address of this machine for other machines.
    pub address: Option<String>,
    /// Whether the kernel keeps jobs from opening GPUs that are not theirs.
    pub isolate_gpus: Option<bool>,
    /// The program that runs containers, or `none`.
    pub container_engine: Option<String>,
    /// Longest time until borrowed GPU memory is back at the job that requested it: `30s`.
    #[serde(default, deserialize_with = "loan_deadline")]
    pub loan_deadline: Option<Millis>,
    /// Where the dashboard listens: `127.0.0.1:7478` or `none`.
    #[serde(default, deserialize_with = "web")]
    pub web: WebAddress,
    /// Address on the network, as `up --listen`.
    pub listen: Option<SocketAddr>,
    /// The site's certificate chain, as `up --tls-certificate`.
    pub tls_certificate: Option<PathBuf>,
    /// Its key, as `up --tls-key`.
    pub tls_key: Option<PathBuf>,
    /// More names and addresses of the server, for certificates of its own authority.
    #[serde(default)]
    pub tls_names: Vec<String>,
    /// The domain below which each notebook has a name: `notebooks.example.org`.
    #[serde(default, deserialize_with = "domain")]
    pub notebook_domain: Option<String>,
    /// Address of the identity provider.
    pub oidc_issuer: Option<String>,
    /// ID of this server at the provider.
    pub oidc_client_id: Option<String>,
    /// A file with the secret of this server at the provider.
    pub oidc_client_secret_file: Option<PathBuf>,
    /// Scopes to request beside `openid`.
    pub oidc_scopes: Option<Vec<String>>,
    /// The claim with the name of a user.
    pub oidc_name_claim: Option<String>,
    /// The claim with the groups of a user.
    pub oidc_groups_claim: Option<String>,
    /// Groups at the provider with the rights of an admin.
    #[serde(default)]
    pub oidc_admin_groups: Vec<String>,
    /// Which users act as the system users of the same names.
    #[serde(default)]
    pub oidc_same_names: SameNamesSetting,
    /// Whether entries of the audit log go to the system's log, too.
    #[serde(default)]
    pub audit_syslog: bool,
    /// Domains of addresses that are names of users.
    #[serde(default)]
    pub oidc_domains: Vec<String>,
    /// How many labels metrics have: `low`, `normal` or `job`.
    #[serde(default, deserialize_with = "parsed")]
    pub metrics: Option<Detail>,
    /// Names of GPU metrics: `gpool`, or also those of `dcgm`.
    #[serde(default)]
    pub metrics_names: MetricNames,
    /// The address that takes OpenTelemetry traces.
    #[serde(default, deserialize_with = "parsed")]
    pub traces: Option<TraceUrl>,
    /// A folder for files that name the jobs of each GPU, for dcgm-exporter.
    pub hpc_job_mapping_dir: Option<PathBuf>,
    /// The format of the log, as `up --log-format`.
    pub log_format: Option<LogFormat>,
    /// Entries that the journal keeps at least; older ones are dropped.
    pub journal_entries: Option<u64>,
    /// Default notification rules for jobs without their own: `fail@https://host/path`.
    #[serde(default)]
    pub notify: Vec<String>,
    /// Internal hosts and address ranges that users may send notifications to.
    #[serde(default)]
    pub notify_allow: Vec<String>,
    /// The mail server: `smtps://user@mail.example.org`.
    pub mail_server: Option<String>,
    /// A file with the password for it.
    pub mail_password_file: Option<PathBuf>,
    /// The program that sends mail like sendmail, or `none`.
    pub sendmail: Option<PathBuf>,
    pub mail_from: Option<String>,
}

fn size<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<Option<Bytes>, D::Error> {
    let text = String::deserialize(text)?;
    gpool_model::parse::bytes(&text).map(Some).map_err(serde::de::Error::custom)
}

fn web<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<WebAddress, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

/// Reads the name of a domain.
fn domain<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<Option<String>, D::Error> {
    let text = String::deserialize(text)?.to_lowercase();
    let is_label = |label: &str| {
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
    };
    match text.len() <= 200 && text.split('.').all(is_label) {
        true => Ok(Some(text)),
        false => {
            let why = "it must be the name of a domain: notebooks.example.org";
            Err(serde::de::Error::custom(why))
        }
    }
}

fn parsed<'de, D: Deserializer<'de>, T>(text: D) -> std::result::Result<Option<T>, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    String::deserialize(text)?.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Loans are checked once a second, and each rung of a call takes a sixth of the time.
const LOAN_LEAST: Millis = Millis::from_secs(6);
/// An allocation that waits longer looks like a hang.
const LOAN_MOST: Millis = Millis::from_mins(10);

fn loan_deadline<'de, D: Deserializer<'de>>(
    text: D,
) -> std::result::Result<Option<Millis>, D::Error> {
    span_within(text, LOAN_LEAST..=LOAN_MOST)
}

/// Agents send something each second, and may be busy for one.
const LEASE_LEAST: Millis = Millis::from_secs(3);
/// Jobs would be placed on a node that is gone for as long.
const LEASE_MOST: Millis = Millis::from_mins(10);

fn node_lease<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<Option<Millis>, D::Error> {
    span_within(text, LEASE_LEAST..=LEASE_MOST)
}

fn span_within<'de, D: Deserializer<'de>>(
    text: D,
    range: RangeInclusive<Millis>,
) -> std::result::Result<Option<Millis>, D::Error> {
    let text = String::deserialize(text)?;
    let span = gpool_model::parse::span(&text).map_err(serde::de::Error::custom)?;
    if range.contains(&span) {
        return Ok(Some(span));
    }
    let (least, most) = (range.start(), range.end());
    Err(serde::de::Error::custom(format!("it must be from {least} to {most}")))
}

/// A delayed agent must still find the end of its job, so nothing is removed earlier than this.
const KEPT_LEAST: Millis = Millis::from_hours(1);

fn age<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<Option<Millis>, D::Error> {
    let text = String::deserialize(text)?;
    if text == "forever" {
        return Ok(None);
    }
    long_enough(&text).map(Some).map_err(serde::de::Error::custom)
}

fn span<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<Option<Millis>, D::Error> {
    let text = String::deserialize(text)?;
    long_enough(&text).map(Some).map_err(serde::de::Error::custom)
}

fn long_enough(text: &str) -> std::result::Result<Millis, String> {
    match gpool_model::parse::span(text).map_err(|error| error.to_string())? {
        age if age < KEPT_LEAST => Err("it must be 1h or more".to_owned()),
        age => Ok(age),
    }
}

impl Config {
    /// Reads the settings of this user: the file that `GPOOL_CONFIG` names, or the usual file if it
    /// exists.
    ///
    /// # Errors
    /// The file can't be read or understood; the message says where.
    pub fn find() -> Result<Self> {
        if let Some(named) = std::env::var_os("GPOOL_CONFIG").filter(|path| !path.is_empty()) {
            return Self::read(Path::new(&named));
        }
        match usual_path() {
            Some(path) if path.exists() => Self::read(&path),
            _ => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self> {
        check_owner(path)?;
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("can't read the settings {}: {error}", path.display());
            Failure::new(errors::BAD_CONFIG, what).tip("unset GPOOL_CONFIG, or set it to a file")
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The settings of notifications.
    pub fn notify(&self) -> Result<NotifySettings> {
        let mut usual = gpool_wire::notify::rules(&self.notify)
            .map_err(|refusal| bad("gpool.toml", &gpool_wire::Problem::from(&refusal).detail))?;
        // The user that starts the server may notify any address.
        usual.iter_mut().for_each(|rule| rule.by_admin = true);
        let read = |text: &String| text.parse::<Allowed>();
        let allow: std::result::Result<_, _> = self.notify_allow.iter().map(read).collect();
        let allow = allow.map_err(|error| bad("notify_allow", &error.to_string()))?;
        if let Some(from) = self.mail_from.as_ref().filter(|from| !is_mail_address(from)) {
            return Err(bad("mail_from", &format!("{:?} is not a mail address", repeated(from))));
        }
        let programs = match &self.sendmail {
            None => MailSettings::default().programs,
            Some(path) if path == Path::new("none") => Vec::new(),
            Some(path) if path.is_absolute() => vec![path.clone()],
            Some(path) => {
                let what = format!(
                    "{:?} is not an absolute path; write /usr/sbin/sendmail",
                    path.display()
                );
                return Err(bad("sendmail", &what));
            }
        };
        let relay = self.mail_relay()?;
        let mail = MailSettings { relay, programs, from: self.mail_from.clone() };
        Ok(NotifySettings { allow, usual, mail })
    }

    /// The mail server with its password.
    fn mail_relay(&self) -> Result<Option<Relay>> {
        let Some(text) = &self.mail_server else { return Ok(None) };
        let relay: std::result::Result<Relay, BadRelay> = text.parse();
        let mut relay = relay.map_err(|error| bad("mail_server", &error.to_string()))?;
        match (relay.has_user(), &self.mail_password_file) {
            (true, Some(path)) => relay.password = Some(secret("mail_password_file", path)?),
            (true, None) => {
                return Err(bad("mail_server", "a user needs mail_password_file"));
            }
            (false, _) => {}
        }
        Ok(Some(relay))
    }

    /// The identity provider, if the settings name one.
    ///
    /// # Errors
    /// The ID of the client is missing, or the file with its secret can't be read.
    pub fn provider(&self) -> Result<Option<ProviderConfig>> {
        let Some(issuer) = self.oidc_issuer.clone() else { return Ok(None) };
        let Some(client_id) = self.oidc_client_id.clone() else {
            return Err(bad("oidc_client_id", "oidc_issuer needs it"));
        };
        let file = self.oidc_client_secret_file.as_deref();
        let client_secret = file.map(|path| secret("oidc_client_secret_file", path)).transpose()?;
        let text =
            |value: &Option<String>, usual: &str| value.clone().unwrap_or_else(|| usual.to_owned());
        let settings = ProviderSettings {
            issuer,
            client_id,
            client_secret,
            scopes: self.oidc_scopes.clone().unwrap_or_else(|| vec!["profile".to_owned()]),
            name_claim: text(&self.oidc_name_claim, "preferred_username"),
            groups_claim: text(&self.oidc_groups_claim, "groups"),
        };
        let admin_groups = self.oidc_admin_groups.clone();
        let same_names = match &self.oidc_same_names {
            SameNamesSetting::All(false) => SameNames::None,
            SameNamesSetting::All(true) => SameNames::People,
            SameNamesSetting::Only(names) => SameNames::Only(names.clone()),
        };
        let domains = self.oidc_domains.clone();
        Ok(Some(ProviderConfig { settings, admin_groups, same_names, domains }))
    }

    /// Parses the text of a file that messages call `shown`.
    ///
    /// # Errors
    /// The text can't be understood; the message says where.
    pub fn parse(text: &str, shown: &str) -> Result<Self> {
        toml_file::read(text).map_err(|misfit| {
            let line = misfit.line;
            let Some((key, _)) = unknown_name(&misfit.message) else {
                let what = format!("{shown}:{line}: {}", misfit.problem.detail);
                let failure = Failure::new(errors::BAD_CONFIG, what);
                let tries = misfit.problem.tries.iter().map(String::as_str);
                return tries.chain(["gpool help settings"]).fold(failure, Failure::tip);
            };
            let known: Vec<&str> = keys::names().collect();
            let what = format!("{shown}:{line}: there is no setting {key:?}");
            let failure =
                known.chunks(3).fold(Failure::new(errors::BAD_CONFIG, what), |it, keys| {
                    it.why(format!("settings: {}", keys.join(", ")))
                });
            match gpool_wire::json::nearest(key, known) {
                Some(near) => failure.tip(format!("{near} = …")),
                None => failure,
            }
        })
    }
}

fn bad(key: &str, what: &str) -> Failure {
    Failure::new(errors::BAD_CONFIG, format!("{key}: {what}")).tip("gpool help settings")
}

/// The secret in a file, without the end of its line. Only its user and group may read it.
fn secret(key: &str, path: &Path) -> Result<String> {
    if std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.mode() & 0o007 != 0) {
        let path = path.display();
        let what = format!("{key}: every user of this machine can read {path}");
        return Err(Failure::new(errors::BAD_CONFIG, what).tip(format!("chmod 600 {path}")));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| bad(key, &format!("can't read {}: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Checks that no other user can change the settings, which name programs to start.
fn check_owner(path: &Path) -> Result<()> {
    // Reading reports the error.
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    let by_sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let is_own = [Some(0), Some(own), by_sudo].contains(&Some(about.uid()));
    // Not /dev/null, which stands for no settings.
    if !about.is_file() || is_own && about.mode() & 0o002 == 0 {
        return Ok(());
    }
    let path = path.display();
    let who = if is_own { "every user".to_owned() } else { format!("user {}", about.uid()) };
    let what = format!("{who} of this machine can change the settings {path}");
    Err(Failure::new(errors::BAD_CONFIG, what).tip(format!("chown {own} {path}; chmod 644 {path}")))
}

/// The path of the file: the machine's for root, otherwise the user's.
pub(crate) fn usual_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(OF_MACHINE));
    }
    user_path()
}

pub(crate) const OF_MACHINE: &str = "/etc/gpool/gpool.toml";

pub(crate) fn user_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    folder.map(|folder| folder.join("gpool/gpool.toml"))
}
