//! Errors that GPUs report.

use gpool_wire::Gpu;

use super::{MetricsPage, flag, float, labels};

impl MetricsPage {
    pub(super) fn gpu_errors(&mut self, gpus: &[Gpu]) {
        let mut by = |name: &str, help: &str, label: &'static str, each: Each| {
            let rows = gpus.iter().flat_map(|gpu| {
                let row = |(kind, count): (String, u64)| {
                    let mut labels = labels(gpu);
                    labels.push((label, kind));
                    (labels, float(count))
                };
                each(gpu).into_iter().map(row).collect::<Vec<_>>()
            });
            self.sums(name, help, rows.collect::<Vec<_>>());
        };
        by("gpool_gpu_ecc_errors", "Memory errors since the driver was loaded", "type", |gpu| {
            let errors = &gpu.detail.errors;
            kinds(errors.ecc_corrected, errors.ecc_uncorrected)
        });
        by("gpool_gpu_remapped_rows", "Replaced memory rows", "type", |gpu| {
            let errors = &gpu.detail.errors;
            kinds(errors.rows_corrected, errors.rows_uncorrected)
        });
        by("gpool_gpu_xid_errors", "Xids since the agent started", "xid", |gpu| {
            gpu.detail.errors.xids.iter().map(|(xid, count)| (xid.clone(), *count)).collect()
        });
        let failed = gpus
            .iter()
            .filter_map(|gpu| Some((labels(gpu), flag(gpu.detail.errors.remap_failed?))));
        let help = "1 if a memory row could not be replaced, otherwise 0";
        self.numbers("gpool_gpu_row_remap_failure", help, failed.collect::<Vec<_>>());
    }
}

/// The counts of a device by the value of a label.
type Each = fn(&Gpu) -> Vec<(String, u64)>;

fn kinds(corrected: Option<u64>, uncorrected: Option<u64>) -> Vec<(String, u64)> {
    let both = [("corrected", corrected), ("uncorrected", uncorrected)];
    both.into_iter().filter_map(|(kind, count)| Some((kind.to_owned(), count?))).collect()
}
