//! Mail, handed to a mail server or to the sendmail of the server's machine. A user chooses the
//! address and the name of the job; the rest of a message is the server's.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use gpool_model::Bytes;
use gpool_model::notify::{Delivery, News, Sent};
use gpool_wire::live_usage::io;
use gpool_wire::notify::is_mail_address;
use gpool_wire::time::span_of;
use gpool_wire::{MessageData, MessageJob, NodeUse};
use lettre::Message;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::failure::{failed, line};
use crate::relay::Relay;

/// Where the program is, by custom.
const USUAL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSettings {
    /// The mail server; without one, a program takes the mail.
    pub relay: Option<Relay>,
    /// Programs that take mail as sendmail does; the first that is there is used.
    pub programs: Vec<PathBuf>,
    /// The address that mail comes from; `None` for `gpool` on this host.
    pub from: Option<String>,
}

impl Default for MailSettings {
    fn default() -> Self {
        Self { relay: None, programs: USUAL.map(PathBuf::from).to_vec(), from: None }
    }
}

impl MailSettings {
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.relay.is_some() || self.program().is_some()
    }

    /// The program that takes mail now, if there is one.
    fn program(&self) -> Option<&Path> {
        self.programs.iter().map(PathBuf::as_path).find(|path| path.is_file())
    }

    /// Hands a message over, and waits until it is taken. Whatever the server or program does, no
    /// longer than that.
    pub fn send(
        &self,
        delivery: &Delivery,
        gpu_use: Vec<NodeUse>,
        to: &str,
        patience: Duration,
    ) -> Sent {
        let message = match self.message(delivery, gpu_use, to) {
            Ok(message) => message,
            Err(error) => return Sent::Refused { why: Arc::from(error.to_string()) },
        };
        if let Some(relay) = &self.relay {
            return match relay.send(message, patience) {
                Ok(()) => Sent::Taken,
                Err(why) => failed(&format!("mail server: {why}")),
            };
        }
        let Some(program) = self.program() else {
            let what = "the server's machine has no sendmail (see mail_server in gpool.toml)";
            return failed(what);
        };
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(&format!("can't wait for sendmail: {error}")),
        };
        // Dropped in time, it kills the program.
        let sent = runtime
            .block_on(async { tokio::time::timeout(patience, hand_over(program, &message)).await });
        match sent {
            Ok(Ok(())) => Sent::Taken,
            Ok(Err(why)) => failed(&format!("sendmail: {why}")),
            Err(_) => failed(&format!(
                "sendmail did not accept the message within {} s",
                patience.as_secs()
            )),
        }
    }

    /// Writes the mail to an address.
    ///
    /// # Errors
    /// An address is invalid.
    pub fn message(
        &self,
        delivery: &Delivery,
        gpu_use: Vec<NodeUse>,
        to: &str,
    ) -> Result<Message, Box<dyn std::error::Error>> {
        let (subject, text) = letter(&delivery.news, gpu_use);
        let (from, host) = self.from();
        let header = |name, value: &str| HeaderValue::new(name, value.to_owned());
        // RFC 3834: programs that answer mail leave this one alone.
        let automatic = header(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated");
        MessageBuilder::new()
            .from(Mailbox::new(Some("gpool".to_owned()), from.parse()?))
            .to(Mailbox::new(None, to.parse()?))
            .subject(subject)
            // The same however often it is sent.
            .message_id(Some(format!("<{}@{host}>", delivery.id)))
            .raw_header(automatic)
            .header(ContentType::TEXT_PLAIN)
            .header(ContentTransferEncoding::QuotedPrintable)
            .body(text)
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

/// The subject and the text of a mail.
fn letter(news: &News, gpu_use: Vec<NodeUse>) -> (String, String) {
    match MessageData::from(news) {
        MessageData::Job(job) => {
            let job = MessageJob { gpu_use, ..*job };
            (subject(&job), body(&job))
        }
        MessageData::Budget(budget) => {
            let headline = budget.headline();
            (format!("gpool: {headline}"), format!("{headline}\n\ngpool budget\n"))
        }
        MessageData::Digest(digest) => {
            let subject = format!("gpool: {}", digest.headline());
            let name = line(&digest.name);
            let command = match digest.kind.as_str() {
                "project" => format!("gpool digest --project {name}"),
                _ => format!("gpool digest --user {name}"),
            };
            (subject, format!("{}\n{command}\ngpool waste\n", digest.text()))
        }
    }
}

fn state(job: &MessageJob) -> String {
    let idle = job.idle_since.map(|since| format!(", idle: no GPU use since {since}"));
    let over = job.gpu_memory_used.zip(job.gpu_memory_limit).map(|(used, limit)| {
        let [used, limit] = [used, limit].map(Bytes::new);
        format!(", uses {used} of a GPU, its limit is {limit}")
    });
    let near = job.time_left_s.zip(job.time_limit_s);
    let near = near.map(|(left, limit)| format!(", {} left of {}", span_of(left), span_of(limit)));
    let late = job.late.as_ref();
    let late = late.map(|it| format!(", not started by {} as forecast", it.forecast_p90));
    let news = idle.or(over).or(near).or(late).unwrap_or_default();
    format!("{}{news}", job.state.as_str().replace('_', " "))
}

/// The command that answers the news, if there is one.
pub(super) fn advice(job: &MessageJob) -> Option<String> {
    let late = job.late.as_ref().map(|_| format!("gpool why {}", job.id));
    job.time_left_s.map(|_| format!("gpool extend {} +30m", job.id)).or(late)
}

pub(super) fn subject(job: &MessageJob) -> String {
    let exit = job.exit_code.filter(|code| *code != 0);
    let exit = exit.map(|code| format!(", exit {code}")).unwrap_or_default();
    let (id, name) = (&job.id, line(&job.name));
    format!("gpool: job {id} \"{name}\" {}{exit}", state(job))
}

fn body(job: &MessageJob) -> String {
    let at = |time: Option<gpool_wire::Time>| time.map(|time| time.to_string());
    let ran = job.ran_s.map(|seconds| format!("{seconds:.0} s"));
    let (usage, peak) = (job.usage, |bytes| format!("at most {}", Bytes::new(bytes)));
    let late = job.late.as_ref();
    let starts = late.and_then(|it| match (it.new_p50, it.new_p90) {
        (Some(p50), Some(p90)) => Some(format!("likely by {p50}, 90 % by {p90}")),
        (p50, _) => p50.map(|p50| format!("likely by {p50}")),
    });
    let memory = usage.map(|it| it.memory_peak_together.unwrap_or(it.memory_peak));
    let nodes = Some(job.nodes.join(", ")).filter(|nodes| !nodes.is_empty());
    let facts = [
        ("job", Some(format!("{} {}", job.id, job.name))),
        ("state", Some(state(job))),
        ("reason", late.and_then(|it| it.reason.clone())),
        ("start", starts),
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
        (
            "GPU use",
            usage.and_then(|it| it.gpu_utilization).map(|it| format!("{:.0} %", it * 100.0)),
        ),
        ("GPU memory", usage.and_then(|it| it.gpu_memory_peak).map(peak)),
        ("CPU time", usage.map(|it| format!("{:.0} s", it.cpu_user_s + it.cpu_system_s))),
        ("memory", memory.map(peak)),
        ("disk", usage.and_then(|it| io(it.read_bytes, it.written_bytes))),
    ];
    let known = facts.into_iter().filter_map(|(label, fact)| Some((label, fact?)));
    let mut text: String =
        known.map(|(label, fact)| format!("{label:<10} {}\n", line(&fact))).collect();
    for (node, used) in NodeUse::texts(&job.gpu_use) {
        text.push_str(&format!("GPUs on {}: {used}\n", line(node)));
    }
    for xid in &job.xids {
        text.push_str(&format!("{}\n", line(&xid.text())));
    }
    text.push_str(&format!("\ngpool show {0}\ngpool logs {0}\n", job.id));
    if let Some(advice) = advice(job) {
        text.push_str(&format!("{advice}\n"));
    }
    text
}
