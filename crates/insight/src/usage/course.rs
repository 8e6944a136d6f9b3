//! GPUs of projects and of the whole cluster over time. The store of utilization has them as
//! devices: it has no room for a family of their own, and its columns fit.

use gpool_history::DeviceSeries;

/// The columns of the figures, in the order of [`Figures`].
pub const SERIES: [DeviceSeries; 4] = [
    DeviceSeries::Allocated,
    DeviceSeries::Utilization,
    DeviceSeries::SmActive,
    DeviceSeries::TensorActive,
];

/// GPUs that are allocated, busy, waited for, and guaranteed; of the cluster, the last are all.
pub type Figures = [f64; 4];

/// The name of a project among the devices; that of the cluster has none. No UUID begins like it.
#[must_use]
pub fn member(project: &str) -> String {
    format!("project {project}")
}
