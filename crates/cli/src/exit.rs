//! Exit codes: what scripts may rely on. Those of errors stand in the catalogue.

/// What the program ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit(pub u8);

impl Exit {
    /// It did what it was asked.
    pub const OK: Self = Self(0);
    /// It failed, and no other code fits; also what a check found to be wrong.
    pub const FAILED: Self = Self(1);
    /// No server answers.
    pub const UNREACHABLE: Self = Self(3);
    /// A job ran out of its time limit, as `timeout` has it.
    pub const JOB_TIMED_OUT: Self = Self(124);
    /// A job with an id could not be started, as `docker run` has it.
    pub const JOB_NOT_STARTED: Self = Self(125);
    /// `run` was left while its job goes on: 128 + INT.
    pub const DETACHED: Self = Self(130);
    /// A job was ended for its memory: 128 + KILL.
    pub const JOB_OUT_OF_MEMORY: Self = Self(137);
    /// The reader of the output has gone: 128 + PIPE.
    pub const PIPE_CLOSED: Self = Self(141);
    /// A job was ended by somebody: 128 + TERM.
    pub const JOB_CANCELLED: Self = Self(143);
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}
