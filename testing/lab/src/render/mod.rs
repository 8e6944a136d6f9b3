//! Output formats of results: CSV, plots, and a cluster as a grid. Pure: data in, text out.

pub mod cluster_grid;
pub mod csv;
pub mod plot;
