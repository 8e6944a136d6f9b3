//! Mail through a server that speaks SMTP, in place of a program on this machine.

use std::fmt;
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport as _};

use crate::failure::line;

/// A mail server: `smtps://user@host:port`, where user and port may be absent.
#[derive(Clone, PartialEq, Eq)]
pub struct Relay {
    is_tls: bool,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    pub password: Option<String>,
}

impl fmt::Debug for Relay {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("user", &self.user).field("host", &self.host).finish()
    }
}

/// It is not the address of a mail server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a mail server; write smtps://user@mail.example.org or smtp://localhost")]
pub struct BadRelay(String);

impl FromStr for Relay {
    type Err = BadRelay;

    fn from_str(text: &str) -> Result<Self, BadRelay> {
        let bad = || BadRelay(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let is_tls = match scheme {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(bad()),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        // Each user can read the settings, so a password is in a file of its own.
        if user.as_deref().is_some_and(|user| user.is_empty() || user.contains(':')) {
            return Err(bad());
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| bad())?)),
            None => (rest, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        match !host.is_empty() && host.chars().all(is_name) {
            true => Ok(Self { is_tls, user, host: host.to_owned(), port, password: None }),
            false => Err(bad()),
        }
    }
}

impl Relay {
    /// Whether it needs a password.
    #[must_use]
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// Hands a message over, and waits until the server has it, no longer than this.
    pub fn send(&self, message: Message, patience: Duration) -> Result<(), String> {
        let transport = self.transport(patience).map_err(|error| error.to_string())?;
        let (to, from) = mpsc::channel();
        // The limit of lettre is one of each step. This thread ends by it.
        let work = move || drop(to.send(transport.send(&message)));
        let thread = std::thread::Builder::new().name("smtp".to_owned()).spawn(work);
        drop(thread.map_err(|error| format!("can't start a thread: {error}"))?);
        match from.recv_timeout(patience) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(line(&error.to_string())),
            Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
        }
    }

    /// With TLS from the start; else with STARTTLS, which only a server without sign-in may lack.
    fn transport(&self, patience: Duration) -> Result<SmtpTransport, Error> {
        let builder = match (self.is_tls, self.has_user()) {
            (true, _) => SmtpTransport::relay(&self.host)?,
            (false, true) => SmtpTransport::starttls_relay(&self.host)?,
            (false, false) => {
                let tls = Tls::Opportunistic(TlsParameters::new(self.host.clone())?);
                SmtpTransport::builder_dangerous(&self.host).tls(tls)
            }
        };
        let builder = match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                builder.credentials(Credentials::new(user.clone(), password.clone()))
            }
            _ => builder,
        };
        let builder = self.port.map(|port| builder.clone().port(port)).unwrap_or(builder);
        Ok(builder.timeout(Some(patience)).build())
    }
}
