//! The proxy: accepts connections, holds requests until a replica can take them, and streams the
//! answers.

pub mod answer;
pub mod headers;
pub mod listener;
pub mod probe;
pub mod replica;
pub mod request;
pub mod table;
