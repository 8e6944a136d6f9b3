//! Confidence intervals of mean differences from batch means: jobs of the same time wait for each
//! other and are not independent, but blocks of time, or seeds, nearly are.
//!
//! Source: A. M. Law, W. D. Kelton, "Simulation Modeling and Analysis", on batch means; B.
//! Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", Operations Research 30(3),
//! 1982, on the number of batches; W. G. Cochran, "Sampling Techniques", on ratio estimates for
//! blocks of different sizes.

/// The sum of one block.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    /// The sum of differences.
    pub sum: f64,
    /// The number of differences.
    pub n: f64,
}

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The number of blocks.
    pub n_blocks: usize,
    /// The 95 % confidence interval; `None` for one block.
    pub interval: Option<(f64, f64)>,
    /// Lag-1 autocorrelation of the blocks, from -1 to 1; if it is high, the interval is too
    /// narrow.
    pub correlation: f64,
}

impl Mean {
    /// The mean of consecutive blocks; empty blocks are ignored.
    #[must_use]
    pub fn of(blocks: &[Sum]) -> Option<Self> {
        let blocks: Vec<&Sum> = blocks.iter().filter(|block| block.n > 0.0).collect();
        let n: f64 = blocks.iter().map(|block| block.n).sum();
        let mean = blocks.iter().map(|block| block.sum).sum::<f64>() / n;
        let rests: Vec<f64> = blocks.iter().map(|block| block.sum - mean * block.n).collect();
        let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
        let n_blocks = blocks.len();
        let interval = (n_blocks > 1).then(|| {
            let degrees = n_blocks as f64 - 1.0;
            let half = student(n_blocks - 1) * (squares * n_blocks as f64 / degrees).sqrt() / n;
            (mean - half, mean + half)
        });
        let products: f64 = rests.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = if squares > 0.0 { products / squares } else { 0.0 };
        (n_blocks > 0).then_some(Self { mean, n_blocks, interval, correlation })
    }

    /// Whether the difference is significant: the interval excludes zero.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Whether the autocorrelation is significant.
    #[must_use]
    pub fn is_correlated(&self) -> bool {
        self.correlation > 2.0 / (self.n_blocks as f64).sqrt()
    }
}

/// The 97.5 % quantile of Student's t-distribution.
fn student(degrees: usize) -> f64 {
    const FIRST: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    if let Some(value) = degrees.checked_sub(1).and_then(|ix| FIRST.get(ix)) {
        return *value;
    }
    // Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.5.
    let (z, n) = (1.959_964_f64, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(values: &[f64]) -> Mean {
        let blocks: Vec<Sum> = values.iter().map(|sum| Sum { sum: *sum, n: 1.0 }).collect();
        Mean::of(&blocks).expect("there are some")
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, expected) in [(1, 12.706), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)]
        {
            assert!((student(degrees) - expected).abs() < 0.001, "{degrees}: {}", student(degrees));
        }
    }

    #[test]
    fn blocks_of_one_size_give_the_interval_of_a_plain_mean() {
        let told = each(&[1.0, 2.0, 3.0]);
        let half = 4.303 / 3.0_f64.sqrt();
        let (low, high) = told.interval.expect("of three");
        assert!((low - (2.0 - half)).abs() < 1e-9 && (high - (2.0 + half)).abs() < 1e-9);
        assert!(!told.is_told());
        assert!(each(&[1.0, 1.1, 0.9]).is_told());
        assert!(each(&[-1.0, -1.1, -0.9]).is_told());
    }

    #[test]
    fn of_one_block_the_mean_is_all_there_is() {
        let none = Sum::default();
        let alone = Mean::of(&[none, Sum { sum: 6.0, n: 3.0 }, none]).expect("there is one");
        assert_eq!((alone.mean, alone.n_blocks, alone.interval), (2.0, 1, None));
        assert_eq!(Mean::of(&[none]), None);
    }

    #[test]
    fn blocks_that_follow_each_other_are_known() {
        let slow: Vec<f64> = (0..40).map(|n| f64::from(n / 10)).collect();
        assert!(each(&slow).is_correlated());
        let fast: Vec<f64> = (0..40).map(|n| f64::from(n % 2)).collect();
        assert!(!each(&fast).is_correlated());
    }
}
