//! Mail about jobs, handed to the sendmail of the server's machine. A user chooses the address and
//! the name of the job; the rest of a message is the server's.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use gpool_model::notify::{Delivery, Sent};
use gpool_wire::notify::{MessageJob, is_mail_address};
use lettre::Message;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Where the program is, by custom.
const USUAL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// How mail is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSettings {
    /// Programs that take mail as sendmail does; the first that is there is used.
    pub programs: Vec<PathBuf>,
    /// The address that mail comes from; `None` for `gpool` on this host.
    pub from: Option<String>,
}

impl Default for MailSettings {
    fn default() -> Self {
        Self { programs: USUAL.map(PathBuf::from).to_vec(), from: None }
    }
}

impl MailSettings {
    /// The program that takes mail now, if there is one.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.programs.iter().map(PathBuf::as_path).find(|path| path.is_file())
    }

    /// Hands a message over, and waits until it is taken. Whatever the program does, no longer
    /// than that.
    pub(super) fn send(&self, delivery: &Delivery, to: &str, patience: Duration) -> Sent {
        let Some(program) = self.program() else {
            return super::failed("the server's machine has no sendmail (sendmail in gpool.toml)");
        };
        let message = match self.message(delivery, to) {
            Ok(message) => message,
            Err(error) => return Sent::Refused { why: Arc::from(error.to_string()) },
        };
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return super::failed(&format!("can't wait for sendmail: {error}")),
        };
        // Dropped in time, it kills the program.
        let sent = runtime
            .block_on(async { tokio::time::timeout(patience, hand_over(program, &message)).await });
        match sent {
            Ok(Ok(())) => Sent::Taken,
            Ok(Err(why)) => super::failed(&format!("sendmail: {why}")),
            Err(_) => {
                super::failed(&format!("sendmail did not take it within {} s", patience.as_secs()))
            }
        }
    }

    fn message(
        &self,
        delivery: &Delivery,
        to: &str,
    ) -> Result<Message, Box<dyn std::error::Error>> {
        let job = MessageJob::from(&delivery.news);
        let (from, host) = self.from();
        let header = |name, value: &str| HeaderValue::new(name, value.to_owned());
        // RFC 3834: programs that answer mail leave this one alone.
        let automatic = header(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated");
        MessageBuilder::new()
            .from(Mailbox::new(Some("gpool".to_owned()), from.parse()?))
            .to(Mailbox::new(None, to.parse()?))
            .subject(subject(&job))
            // The same however often it is sent.
            .message_id(Some(format!("<{}@{host}>", delivery.id)))
            .raw_header(automatic)
            .header(ContentType::TEXT_PLAIN)
            .header(ContentTransferEncoding::QuotedPrintable)
            .body(body(&job))
            .map_err(Into::into)
    }

    /// The address that mail comes from, and its host.
    fn from(&self) -> (String, String) {
        let own = || {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let address = format!("gpool@{name}");
            if is_mail_address(&address) { address } else { "gpool@localhost".to_owned() }
        };
        let address = self.from.clone().unwrap_or_else(own);
        let host = address.rsplit('@').next().unwrap_or_default().to_owned();
        (address, host)
    }
}

/// Runs the program with a message on its standard input, and waits for its end.
async fn hand_over(program: &Path, message: &Message) -> Result<(), String> {
    let envelope = message.envelope();
    let mut command = Command::new(program);
    // A lone dot ends no message.
    command.arg("-i");
    if let Some(from) = envelope.from() {
        command.arg("-f").arg(from);
    }
    // What follows is no flag.
    command.arg("--").args(envelope.to().iter().map(ToString::to_string));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("can't be started: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // One that ends without reading all says by its exit code why.
        let _ = input.write_all(&message.formatted()).await;
    }
    let output = child.wait_with_output().await.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", output.status, line(said.trim())))
        }
    }
}

/// Text of a user in one line of ours.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn state(job: &MessageJob) -> String {
    job.state.as_str().replace('_', " ")
}

fn subject(job: &MessageJob) -> String {
    let exit = job.exit_code.filter(|code| *code != 0);
    let exit = exit.map(|code| format!(", exit {code}")).unwrap_or_default();
    let (id, name) = (&job.id, line(&job.name));
    format!("gpool: job {id} \"{name}\" {}{exit}", state(job))
}

fn body(job: &MessageJob) -> String {
    let at = |time: Option<gpool_wire::Time>| time.map(|time| time.to_string());
    let ran = job.ran_s.map(|seconds| format!("{seconds:.0} s"));
    let nodes = Some(job.nodes.join(", ")).filter(|nodes| !nodes.is_empty());
    let facts = [
        ("job", Some(format!("{} {}", job.id, job.name))),
        ("state", Some(state(job))),
        ("exit code", job.exit_code.map(|code| code.to_string())),
        ("user", Some(job.user.clone())),
        ("project", Some(job.project.clone())),
        ("run", Some(job.attempt.to_string())),
        ("GPUs", Some(job.gpus.clone())),
        ("nodes", nodes),
        ("submitted", at(Some(job.submitted_at))),
        ("started", at(job.started_at)),
        ("ended", at(job.ended_at)),
        ("ran", ran),
    ];
    let known = facts.into_iter().filter_map(|(label, fact)| Some((label, fact?)));
    let mut text: String =
        known.map(|(label, fact)| format!("{label:<10} {}\n", line(&fact))).collect();
    text.push_str(&format!("\ngpool show {0}\ngpool logs {0}\n", job.id));
    text
}

#[cfg(test)]
mod tests {
    use gpool_model::job::{JobState, Owner};
    use gpool_model::notify::JobNews;
    use gpool_model::{Attempt, ProjectName, Timestamp};

    use super::*;

    fn delivery(name: &str) -> Delivery {
        let news = JobNews {
            job: "12".parse().expect("an id"),
            attempt: Attempt(1),
            state: JobState::Failed,
            at: Timestamp::new(1),
            name: Arc::from(name),
            owner: Owner { uid: 7, gid: 7, user: "ana".into() },
            project: ProjectName::new("red"),
            gpus: Arc::from("2"),
            nodes: Vec::new(),
            submitted_at: Timestamp::new(1),
            started_at: None,
            ended_at: None,
            exit_code: Some(3),
        };
        let (id, url) = (Delivery::id_of(&news, 0), Arc::from("mailto:ana@example.org"));
        let due = Timestamp::new(2);
        Delivery { id, url, by_admin: false, news, n_attempts: 0, why: None, due, given_up: false }
    }

    fn written(name: &str) -> String {
        let settings =
            MailSettings { from: Some("gpool@lab".to_owned()), ..MailSettings::default() };
        let message = settings.message(&delivery(name), "ana@example.org").expect("a message");
        String::from_utf8(message.formatted()).expect("ASCII")
    }

    #[test]
    fn a_message_says_what_became_of_the_job() {
        let text = written("train");
        for words in [
            "From: gpool <gpool@lab>\r\n",
            "To: ana@example.org\r\n",
            "Subject: gpool: job 12 \"train\" failed, exit 3\r\n",
            "Message-ID: <msg_12_1_failed_1_0@lab>\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "\r\nproject    red\r\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_name_of_a_job_makes_no_header() {
        let text = written("x\r\nBcc: eve@example.org\r\n\r\nhello \u{1F600}");
        let head = text.split("\r\n\r\n").next().expect("a head");
        let is_bcc = |line: &str| line.to_ascii_lowercase().starts_with("bcc:");
        assert!(!head.lines().any(is_bcc), "{text}");
        let names = ["From", "To", "Subject", "Message-ID", "Auto-Submitted", "Content-Type"];
        let known = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}:")));
        assert_eq!(head.lines().filter(known).count(), names.len(), "{head}");
        assert!(text.is_ascii());
    }

    #[test]
    fn one_that_hangs_is_ended() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let program = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("executable");
            MailSettings { programs: vec![path], ..MailSettings::default() }
        };
        let send = |settings: &MailSettings, patience| {
            settings.send(&delivery("a"), "ana@example.org", patience)
        };
        let hangs = program("hangs", "#!/bin/sh\nexec sleep 1000\n");
        let sent = send(&hangs, Duration::from_millis(50));
        assert!(matches!(sent, Sent::Failed { why } if why.contains("did not take it")));
        let long = Duration::from_secs(60);
        let fails =
            program("fails", "#!/bin/sh\ncat > /dev/null\necho no such user >&2\nexit 67\n");
        let sent = send(&fails, long);
        assert!(matches!(&sent, Sent::Failed { why } if why.contains("no such user")), "{sent:?}");
        let none = MailSettings { programs: Vec::new(), ..MailSettings::default() };
        assert!(matches!(send(&none, long), Sent::Failed { why } if why.contains("no sendmail")));
    }
}
