//! Exit codes, which scripts may rely on. The catalogue has the exit codes of errors.

/// The exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit(pub u8);

impl Exit {
    pub const OK: Self = Self(0);
    /// A failure without a more specific code, or a check that found a problem.
    pub const FAILED: Self = Self(1);
    pub const UNREACHABLE: Self = Self(3);
    /// A job exceeded its time limit, as with `timeout`.
    pub const JOB_TIMED_OUT: Self = Self(124);
    /// A submitted job could not be started, as with `docker run`.
    pub const JOB_NOT_STARTED: Self = Self(125);
    /// The user detached from `run` and the job goes on: 128 + INT.
    pub const DETACHED: Self = Self(130);
    /// A job ran out of memory: 128 + KILL.
    pub const JOB_OUT_OF_MEMORY: Self = Self(137);
    /// The reader of the output has gone: 128 + PIPE.
    pub const PIPE_CLOSED: Self = Self(141);
    /// A user cancelled the job: 128 + TERM.
    pub const JOB_CANCELLED: Self = Self(143);
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}
