//! Output formats of results: CSV and tables. Pure: data in, text out.

pub mod csv;
pub mod grid;
