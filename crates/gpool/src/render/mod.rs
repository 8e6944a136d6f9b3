//! How things look. Pure: data in, text out; nothing here reads a clock or writes to a stream.

pub mod bar;
pub mod calibration;
pub mod clock;
pub mod eta;
pub mod events;
pub mod gpus;
pub mod history;
pub mod job;
pub mod jobs;
pub mod json;
pub mod life;
pub mod list;
pub mod nodes;
pub mod notifications;
pub mod page;
pub mod recovery;
pub mod report;
pub mod reserve;
pub mod safe;
pub mod status;
pub mod style;
pub mod table;
pub mod up;
pub mod view;
pub mod why;
pub mod words;
