//! The protocol between a server and its agents: the messages of each direction, and the frames in
//! which they travel.
//!
//! - [`ToAgent`] and [`ToServer`] are all messages. Orders and reports are those of
//!   [`gpool_model::agent`]; they are level-triggered, so a lost or repeated one does no harm.
//! - [`Telemetry`] is pushed by the agent; the server keeps the last value of each device and task.
//! - A [`Question`] has an id, which its [`Answer`] repeats. The server waits until a deadline.
//! - A stream to a task, such as a terminal, is a further connection that the agent opens. It
//!   carries the id of the question that asked for it.
//!
//! Messages are JSON; output is the body of its message, as it is. An unknown field is ignored, so
//! that a newer peer can send more; an unknown variant is refused by its name. Peers one version
//! apart work together: a new variant is sent only to peers of a version that knows it.

#![forbid(unsafe_code)]

mod files;
mod frame;
mod message;
mod question;
pub mod recent;
mod telemetry;

pub use files::{
    FileAnswer, FileQuestion, Launched, LaunchedTask, OutputPart, OutputRequest, OutputStart,
};
pub use frame::{Decoder, FRAME_BYTES_MAX, FrameError, Message, encode};
pub use message::{Hello, ToAgent, ToServer, VERSION, understands};
pub use question::{Answer, Question, QuestionId};
pub use telemetry::{AgentProcess, Telemetry};
