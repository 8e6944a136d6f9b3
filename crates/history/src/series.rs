//! The measured series with their units, and how values become integers.

/// How a value in base units becomes an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// A multiple of this step. Negative values are absent.
    Linear(f64),
    /// The sign, the exponent and this number of bits of the mantissa: the error is at most
    /// 2^-(bits + 1) of the value. At most 22 bits.
    Relative(u32),
}

impl Scale {
    /// The integer of a value; `None` if it is not finite or cannot be stored.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is checked first, and a cast of a float saturates"
    )]
    pub(crate) fn quantise(self, value: f64) -> Option<u32> {
        match self {
            Self::Linear(step) => {
                let n = (value / step).round();
                // One less than the largest: stored in `recent` plus one.
                (n >= 0.0 && n.is_finite()).then(|| (n as u32).min(u32::MAX - 1))
            }
            Self::Relative(bits) => {
                let narrow = Some(value as f32).filter(|it| it.is_finite())?.to_bits();
                // In this form, integers have the order of the values.
                let ordered = if narrow >> 31 == 1 { !narrow } else { narrow | 1 << 31 };
                let shift = 23 - bits.min(22);
                Some(ordered.saturating_add(1 << (shift - 1)) >> shift)
            }
        }
    }

    /// The value of an integer, in base units.
    pub(crate) fn value(self, code: u32) -> f64 {
        match self {
            Self::Linear(step) => f64::from(code) * step,
            Self::Relative(bits) => {
                let ordered = code << (23 - bits.min(22));
                let bits_of = if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered };
                f64::from(f32::from_bits(bits_of))
            }
        }
    }
}

/// The resolution of a ratio: half a percent.
const RATIO: Scale = Scale::Linear(0.005);
/// The resolution of memory.
const MIB: Scale = Scale::Linear(1_048_576.0);
/// The resolution of bytes per second: 0.8 %.
const RATE: Scale = Scale::Relative(6);
/// The resolution of the users' own metrics: six digits.
pub const METRIC: Scale = Scale::Relative(20);

/// The series of a device. Each value is the mean over a minute, in the unit of the metric of the
/// same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSeries {
    /// `gpool_gpu_utilization_ratio`, 0 to 1 in steps of 0.005.
    Utilization,
    /// `gpool_gpu_sm_active_ratio`, 0 to 1 in steps of 0.005.
    SmActive,
    /// `gpool_gpu_tensor_active_ratio`, 0 to 1 in steps of 0.005.
    TensorActive,
    /// `gpool_gpu_dram_active_ratio`, 0 to 1 in steps of 0.005.
    DramActive,
    /// `gpool_gpu_memory_used_bytes`, in steps of 1 MiB.
    MemoryUsed,
    /// `gpool_gpu_power_watts`, in steps of 2 W.
    Power,
    /// `gpool_gpu_temperature_celsius`, in steps of 1 °C.
    Temperature,
    /// `gpool_gpu_memory_temperature_celsius`, in steps of 1 °C.
    MemoryTemperature,
    /// `gpool_gpu_sm_clock_hertz`, in steps of 5 MHz.
    SmClock,
    /// Bytes received per second over PCIe, to 0.8 %.
    PcieReceived,
    /// Bytes sent per second over PCIe, to 0.8 %.
    PcieSent,
    /// Bytes per second over NVLink in both directions, to 0.8 %.
    Nvlink,
    /// The part of the device that jobs hold, 0 to 1 in steps of 0.005.
    Allocated,
}

impl DeviceSeries {
    pub const N: usize = 13;

    /// All series, in the order of [`crate::Sample::values`].
    pub const ALL: [Self; Self::N] = [
        Self::Utilization,
        Self::SmActive,
        Self::TensorActive,
        Self::DramActive,
        Self::MemoryUsed,
        Self::Power,
        Self::Temperature,
        Self::MemoryTemperature,
        Self::SmClock,
        Self::PcieReceived,
        Self::PcieSent,
        Self::Nvlink,
        Self::Allocated,
    ];

    const SCALES: [Scale; Self::N] = [
        RATIO,
        RATIO,
        RATIO,
        RATIO,
        MIB,
        Scale::Linear(2.0),
        Scale::Linear(1.0),
        Scale::Linear(1.0),
        Scale::Linear(5e6),
        RATE,
        RATE,
        RATE,
        RATIO,
    ];
}

/// The series of a job: sums over its tasks, or means over its GPUs for utilization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobSeries {
    /// `gpool_job_gpu_utilization_ratio`, 0 to 1 in steps of 0.005.
    GpuUtilization,
    /// `gpool_job_gpu_memory_bytes`, in steps of 1 MiB.
    GpuMemory,
    /// CPU cores in use, in steps of 0.01.
    Cpu,
    /// Host memory in bytes, in steps of 1 MiB.
    HostMemory,
    /// Bytes read per second, to 0.8 %.
    IoRead,
    /// Bytes written per second, to 0.8 %.
    IoWrite,
}

impl JobSeries {
    /// Number of series.
    pub const N: usize = 6;

    /// All series, in the order of [`crate::JobSample::values`].
    pub const ALL: [Self; Self::N] = [
        Self::GpuUtilization,
        Self::GpuMemory,
        Self::Cpu,
        Self::HostMemory,
        Self::IoRead,
        Self::IoWrite,
    ];

    const SCALES: [Scale; Self::N] = [RATIO, MIB, Scale::Linear(0.01), MIB, RATE, RATE];
}

/// Things with values in each minute. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Device = 0,
    Job = 1,
    /// The users' own metrics, one each for a job and a name.
    Metric = 2,
}

impl Family {
    /// The scale of each series.
    pub fn scales(self) -> &'static [Scale] {
        match self {
            Self::Device => &DeviceSeries::SCALES,
            Self::Job => &JobSeries::SCALES,
            Self::Metric => &[METRIC],
        }
    }
}
