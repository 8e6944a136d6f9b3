//! Output that all command lines share. Pure: data in, text out; no module reads a clock or writes
//! to a stream.

pub mod arrays;
pub mod bar;
pub mod clock;
pub mod eta;
pub mod gpus;
pub mod hours;
pub mod jobs;
pub mod json;
pub mod life;
pub mod list;
pub mod nodes;
pub mod page;
pub mod reason;
pub mod reserve;
pub mod safe;
pub mod style;
pub mod table;
pub mod view;
pub mod words;
pub mod yaml;
