//! How things look that every command line shows. Pure: data in, text out; nothing here reads a
//! clock or writes to a stream.

pub mod bar;
pub mod clock;
pub mod eta;
pub mod json;
pub mod list;
pub mod nodes;
pub mod page;
pub mod reserve;
pub mod row;
pub mod safe;
pub mod style;
pub mod table;
pub mod view;
pub mod words;
pub mod yaml;
