//! Output formats of results: CSV and plots. Pure: data in, text out.

pub mod csv;
pub mod plot;
