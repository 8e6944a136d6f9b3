//! Errors between a command and its server.

use std::path::PathBuf;

use gpool_wire::{Problem, catalogue, repeated};

use crate::silence::{Cause, Silence, silence_of};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// No server answers on any of the sockets.
    #[error("no gpool server answers")]
    Unreachable {
        /// Each socket with its error.
        tried: Vec<(PathBuf, String)>,
    },
    /// There is a socket, but the caller may not connect to it.
    #[error("you may not connect to {}", .socket.display())]
    MayNotConnect {
        /// The socket.
        socket: PathBuf,
    },
    /// A server on the network can't be reached.
    #[error("{server} can't be reached: {why}")]
    NoRemote {
        /// Its address.
        server: String,
        /// The system's error.
        why: String,
    },
    /// The certificate of a server on the network proves nothing.
    #[error("the certificate of {server} is not trusted: {why}")]
    NotTrusted {
        /// Its address.
        server: String,
        /// The fault in the certificate.
        why: String,
    },
    /// A context can't be used.
    #[error("{why}")]
    Context {
        /// The fault.
        why: String,
    },
    /// The connection was lost after the request was sent; it may have been carried out.
    #[error("the connection to the server was lost: {why}")]
    Lost {
        /// The system's error.
        why: String,
    },
    /// The server is there but answers nothing.
    #[error("{silence}")]
    Silent {
        /// Why.
        silence: Silence,
        /// Whether the request changes something and may still be carried out.
        maybe_done: bool,
    },
    /// The answer did not come within the time limit.
    #[error("the server did not answer in time")]
    TimedOut,
    /// The answer is not that of a server of this version.
    #[error("the answer was not understood: {why}")]
    BadAnswer {
        /// The fault in the answer.
        why: String,
    },
    /// The path of the socket can't be used.
    #[error("the socket's path can't be used: {why}")]
    SocketPath {
        /// The fault in the path.
        why: String,
    },
    /// The folder of the user's own socket belongs to another user.
    #[error("{} is not safe to use: {why}", .folder.display())]
    SocketNotOurs {
        /// The folder.
        folder: PathBuf,
        /// Why it is not trusted.
        why: String,
    },
    /// The input of the request could not be read.
    #[error("can't read the data to send: {0}")]
    Input(String),
}

impl Error {
    /// Returns the error as a problem, for printing: summary, reasons, remedies and code.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let of = |code| Problem::new(code, self.to_string());
        match self {
            Self::Problem(problem) => problem.clone(),
            Self::Unreachable { tried } => {
                let said = |(path, why): &(PathBuf, String)| format!("{}: {why}", path.display());
                let mut problem = of(catalogue::UNREACHABLE);
                problem.why = tried.iter().map(said).collect();
                problem
                    .try_this("gpool up       (starts a server of your own)")
                    .try_this("gpool doctor   (finds the cause)")
            }
            Self::NoRemote { .. } => of(catalogue::UNREACHABLE)
                .try_this("gpool context list          (shows the servers that you signed in to)")
                .try_this("gpool --context local ...   (uses the server of this machine)"),
            Self::NotTrusted { server, .. } => of(catalogue::NOT_TRUSTED)
                .because("another machine may answer in its place, or it has a new certificate")
                .try_this(format!("gpool login {server}   (compares its fingerprint again)"))
                .try_this("tls_names = [...]   (in gpool.toml of the server, for another name)"),
            Self::Context { .. } => of(catalogue::CONTEXT)
                .try_this("gpool context list")
                .try_this("gpool login https://HOST:7443"),
            Self::MayNotConnect { .. } => of(catalogue::SOCKET_REFUSES)
                .because("its permissions, or those of its folder, do not let you connect")
                .try_this("gpool up       (starts a server of your own)")
                .try_this("GPOOL_SOCKET=PATH   (uses the server at another socket)"),
            Self::Lost { .. } => of(catalogue::UNREACHABLE)
                .because("the request may have been carried out: check before you repeat it"),
            Self::Silent { silence, maybe_done } => {
                let mut problem = of(catalogue::SILENT);
                if *maybe_done {
                    problem = problem.because(
                        "the server may still carry out the request: check before you repeat it",
                    );
                }
                if let (Cause::Stopped, Some(pid)) = (silence.cause, silence.pid) {
                    problem = problem.try_this(format!("kill -CONT {pid}   (continues it)"));
                }
                problem.try_this(
                    "gpool down   (ends it; jobs keep running, and gpool up starts it again)",
                )
            }
            Self::TimedOut => of(catalogue::TIMED_OUT)
                .because("the request may have been carried out: check before you repeat it")
                .try_this("a longer --timeout"),
            Self::BadAnswer { .. } => of(catalogue::BAD_ANSWER).try_this("gpool version"),
            Self::SocketPath { .. } => {
                of(catalogue::SOCKET_PATH).try_this("GPOOL_SOCKET=/run/user/1000/gpool/api.sock")
            }
            Self::SocketNotOurs { folder, .. } => of(catalogue::SOCKET_NOT_OURS)
                .try_this(format!("rm -r {}, or set GPOOL_SOCKET", folder.display())),
            Self::Input(_) => of(catalogue::INVALID),
        }
    }

    /// Converts an error of reading a stream.
    #[must_use]
    pub fn of_read(error: std::io::Error) -> Self {
        of_io(error)
    }

    /// Marks a silence after a request that changes something.
    #[must_use]
    pub(crate) fn maybe_done(self) -> Self {
        match self {
            Self::Silent { silence, .. } => Self::Silent { silence, maybe_done: true },
            other => other,
        }
    }

    /// Whether the request was sent and its result is unknown, so that it may have been carried
    /// out.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. } | Self::TimedOut | Self::BadAnswer { .. } | Self::Silent { .. }
        )
    }

    /// The exit code of a command with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.problem().exit_code()
    }

    /// Whether the server did nothing and asks the client to wait.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        let pauses = [catalogue::TOO_MANY_REQUESTS, catalogue::TOO_MANY_CONNECTIONS];
        matches!(self, Self::Problem(problem)
            if pauses.iter().any(|code| problem.code == code.to_string()))
    }

    /// Whether a retry may help: the server is away, starting or stopping, or the connection was
    /// lost.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NoRemote { .. } | Self::Lost { .. } => true,
            Self::Problem(problem) => {
                let coming_or_going = [catalogue::NOT_READY, catalogue::SHUTTING_DOWN];
                coming_or_going.iter().any(|code| problem.code == code.to_string())
            }
            Self::TimedOut
            | Self::Silent { .. }
            | Self::MayNotConnect { .. }
            | Self::NotTrusted { .. }
            | Self::Context { .. }
            | Self::BadAnswer { .. }
            | Self::SocketPath { .. }
            | Self::SocketNotOurs { .. }
            | Self::Input(_) => false,
        }
    }
}

/// The message may repeat text of an unknown server, so it is cut and cleaned.
pub(crate) fn bad_answer(error: &dyn std::fmt::Display) -> Error {
    Error::BadAnswer { why: repeated(&error.to_string()) }
}

/// Converts an error of reading a body.
pub(crate) fn of_io(error: std::io::Error) -> Error {
    if let Some(silence) = silence_of(&error) {
        return Error::Silent { silence, maybe_done: false };
    }
    let kind = error.kind();
    match error.downcast::<ureq::Error>() {
        Ok(inner) => of_ureq(inner),
        Err(_) if kind == std::io::ErrorKind::TimedOut => Error::TimedOut,
        Err(error) => Error::Lost { why: error.to_string() },
    }
}

pub(crate) fn of_ureq(error: ureq::Error) -> Error {
    if let ureq::Error::Other(inner) = &error
        && let Some(silence) = silence_of(&**inner)
    {
        return Error::Silent { silence, maybe_done: false };
    }
    match error {
        ureq::Error::Timeout(_) => Error::TimedOut,
        ureq::Error::Io(error) => Error::Lost { why: error.to_string() },
        ureq::Error::ConnectionFailed => Error::Lost { why: error.to_string() },
        other => bad_answer(&other),
    }
}
