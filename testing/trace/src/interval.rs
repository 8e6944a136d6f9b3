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
pub fn student(degrees: usize) -> f64 {
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
