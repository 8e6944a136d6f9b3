//! What can go wrong between a command and its server.

use std::path::PathBuf;

use gpool_wire::{Problem, catalogue, repeated};

use crate::silence::{Cause, Silence, silence_of};

/// Why a request has no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// Nothing answers on any of the sockets that were tried.
    #[error("no gpool server answers")]
    Unreachable {
        /// Each socket with what came of it.
        tried: Vec<(PathBuf, String)>,
    },
    /// There is a socket, and the caller may not connect to it.
    #[error("you may not connect to {}", .socket.display())]
    MayNotConnect {
        /// Which.
        socket: PathBuf,
    },
    /// The connection was lost after the request was sent; it may have been carried out.
    #[error("the connection to the server was lost: {why}")]
    Lost {
        /// What the system said.
        why: String,
    },
    /// The server is there and answers nothing.
    #[error("{silence}")]
    Silent {
        /// Why.
        silence: Silence,
        /// Whether the request may still be carried out, and changes something.
        maybe_done: bool,
    },
    /// The answer did not come in the time allowed.
    #[error("the server did not answer in time")]
    TimedOut,
    /// What answered does not speak as a server of this version does.
    #[error("the answer was not understood: {why}")]
    BadAnswer {
        /// What was wrong with it.
        why: String,
    },
    /// The path of the socket can't be used.
    #[error("the socket's path can't be used: {why}")]
    SocketPath {
        /// What is wrong with it.
        why: String,
    },
    /// The folder of the user's own socket belongs to somebody else.
    #[error("{} can't be trusted: {why}", .folder.display())]
    SocketNotOurs {
        /// Which folder.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What was to be sent could not be read.
    #[error("could not read what was to be sent: {0}")]
    Input(String),
}

impl Error {
    /// The same as a problem, for printing: what, why, what to try, and the code.
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
                    .try_this("gpool up      (starts a server of your own)")
                    .try_this("gpool doctor  (looks for the cause)")
            }
            Self::MayNotConnect { .. } => of(catalogue::SOCKET_REFUSES)
                .because("its permissions, or those of its folder, do not let you in")
                .try_this("gpool up      (starts a server of your own)")
                .try_this("GPOOL_SOCKET  (names another server's socket)"),
            Self::Lost { .. } => of(catalogue::UNREACHABLE)
                .because("it may have been done: look before you ask again"),
            Self::Silent { silence, maybe_done } => {
                let mut problem = of(catalogue::SILENT);
                if *maybe_done {
                    problem = problem.because(
                        "the request may still be carried out: check before you repeat it",
                    );
                }
                if let (Cause::Stopped, Some(pid)) = (silence.cause, silence.pid) {
                    problem = problem.try_this(format!("kill -CONT {pid}   (lets it go on)"));
                }
                problem.try_this("gpool down    (stops it; jobs go on, and gpool up starts it)")
            }
            Self::TimedOut => of(catalogue::TIMED_OUT)
                .because("it may have been done: look before you ask again")
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

    /// What an error while reading a stream means.
    #[must_use]
    pub fn of_read(error: std::io::Error) -> Self {
        of_io(error)
    }

    /// The same for a request that changes something and was sent.
    #[must_use]
    pub(crate) fn maybe_done(self) -> Self {
        match self {
            Self::Silent { silence, .. } => Self::Silent { silence, maybe_done: true },
            other => other,
        }
    }

    /// Whether the request was sent and its answer is not known, so that it may have been done.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. } | Self::TimedOut | Self::BadAnswer { .. } | Self::Silent { .. }
        )
    }

    /// What a command that meets it exits with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.problem().exit_code()
    }

    /// Whether the server did nothing and asks for a pause.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        let pauses = [catalogue::TOO_MANY_REQUESTS, catalogue::TOO_MANY_CONNECTIONS];
        matches!(self, Self::Problem(problem)
            if pauses.iter().any(|code| problem.code == code.to_string()))
    }

    /// Whether asking again may help: the server is away, starting or stopping, or the connection
    /// was lost.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Problem(problem) => {
                let coming_or_going = [catalogue::NOT_READY, catalogue::SHUTTING_DOWN];
                coming_or_going.iter().any(|code| problem.code == code.to_string())
            }
            Self::TimedOut
            | Self::Silent { .. }
            | Self::MayNotConnect { .. }
            | Self::BadAnswer { .. }
            | Self::SocketPath { .. }
            | Self::SocketNotOurs { .. }
            | Self::Input(_) => false,
        }
    }
}

/// Whatever answered chose the words that the error repeats.
pub(crate) fn bad_answer(error: &dyn std::fmt::Display) -> Error {
    Error::BadAnswer { why: repeated(&error.to_string()) }
}

/// What an error while reading a body means.
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
