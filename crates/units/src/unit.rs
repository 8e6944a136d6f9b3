//! Units as types: checked integers, and division with explicit rounding.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value.
            pub const MAX: Self = Self(u64::MAX);

            /// An amount in the unit that the type is named for.
            #[must_use]
            pub const fn new(amount: u64) -> Self {
                Self(amount)
            }

            /// The amount in the unit that the type is named for.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The sum, or `None` if it overflows.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// The difference, or `None` if it would be negative.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(rest) => Some(Self(rest)),
                    None => None,
                }
            }

            /// The product, or `None` if it overflows.
            #[must_use]
            pub const fn checked_mul(self, count: u64) -> Option<Self> {
                match self.0.checked_mul(count) {
                    Some(product) => Some(Self(product)),
                    None => None,
                }
            }

            /// The sum, at most [`Self::MAX`].
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// The difference, at least zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The quotient, rounded down.
            ///
            /// # Panics
            /// If `divisor` is zero.
            #[must_use]
            pub const fn div_floor(self, divisor: u64) -> Self {
                Self(self.0 / divisor)
            }

            /// The quotient, rounded up.
            ///
            /// # Panics
            /// If `divisor` is zero.
            #[must_use]
            pub const fn div_ceil(self, divisor: u64) -> Self {
                Self(self.0.div_ceil(divisor))
            }

            /// Whether it is zero.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
    };
}

unit!(
    /// Thousandths of a device: 1000 is one whole GPU.
    MilliGpu
);
unit!(
    /// Thousandths of a CPU core.
    MilliCpu
);
unit!(
    /// Bytes of memory. Users write `G` for GiB.
    Bytes
);
unit!(
    /// A duration in milliseconds.
    Millis
);
unit!(
    /// A time: milliseconds since 1970-01-01 UTC.
    Timestamp
);
unit!(
    /// GPU time: thousandths of a device times milliseconds.
    GpuTime
);

impl GpuTime {
    /// One whole device for an hour.
    pub const HOUR: Self = Self(1000 * 3_600_000);

    /// The GPU time of these devices in this duration, at most [`GpuTime::MAX`].
    #[must_use]
    pub const fn of(gpus: MilliGpu, span: Millis) -> Self {
        Self(gpus.0.saturating_mul(span.0))
    }

    /// This time with a signed correction, at least zero.
    #[must_use]
    pub const fn corrected(self, by: i64) -> Self {
        Self(self.0.saturating_add_signed(by))
    }

    /// The time until these devices have used this GPU time, rounded up; [`Millis::MAX`] without
    /// devices.
    #[must_use]
    pub const fn lasts(self, gpus: MilliGpu) -> Millis {
        match gpus.0 {
            0 => Millis::MAX,
            gpus => Millis(self.0.div_ceil(gpus)),
        }
    }
}

impl fmt::Display for GpuTime {
    /// Writes hours of one device, rounded down: `3`, `1.05`, `0.2`, `0.008`, and `0` for less.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.0 / (Self::HOUR.0 / 1000);
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        match (whole, rest) {
            (10.., _) | (_, 0) => f.pad(&whole.to_string()),
            (0, _) => f.pad(format!("0.{rest:03}").trim_end_matches('0')),
            (_, 0..10) => f.pad(&whole.to_string()),
            _ => f.pad(format!("{whole}.{:02}", rest / 10).trim_end_matches('0')),
        }
    }
}

impl MilliGpu {
    /// One whole device.
    pub const DEVICE: Self = Self(1000);

    /// This number of whole devices.
    #[must_use]
    pub const fn from_devices(count: u32) -> Self {
        Self(count as u64 * 1000)
    }
}

impl MilliCpu {
    /// This number of whole cores.
    #[must_use]
    pub const fn from_cores(count: u32) -> Self {
        Self(count as u64 * 1000)
    }
}

impl fmt::Display for MilliCpu {
    /// Writes cores with as many decimals as needed: `4`, `0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return f.pad(&whole.to_string());
        }
        f.pad(format!("{whole}.{rest:03}").trim_end_matches('0'))
    }
}

impl Bytes {
    const UNITS: [(&'static str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

    /// This number of GiB.
    #[must_use]
    pub const fn from_gib(count: u32) -> Self {
        Self((count as u64) << 30)
    }

    /// This number of MiB.
    #[must_use]
    pub const fn from_mib(count: u32) -> Self {
        Self((count as u64) << 20)
    }
}

impl fmt::Display for Bytes {
    /// Writes the largest unit that gives at least 1, with one decimal, rounded down: `79.6 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, size) in Self::UNITS {
            if self.0 >= size {
                let whole = self.0 / size;
                // The remainder is below 2^40, so ten times it can't overflow.
                let tenth = (self.0 % size) * 10 / size;
                return match tenth {
                    0 => f.pad(&format!("{whole} {name}")),
                    _ => f.pad(&format!("{whole}.{tenth} {name}")),
                };
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl Millis {
    /// This number of seconds.
    #[must_use]
    pub const fn from_secs(count: u32) -> Self {
        Self(count as u64 * 1000)
    }

    /// This number of minutes.
    #[must_use]
    pub const fn from_mins(count: u32) -> Self {
        Self(count as u64 * 60_000)
    }

    /// This number of hours.
    #[must_use]
    pub const fn from_hours(count: u32) -> Self {
        Self(count as u64 * 3_600_000)
    }
}

impl fmt::Display for Millis {
    /// Writes a duration in the form of time limits: `45s`, `12m`, `3h00`, `2d04h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        let text = match (days, hours, minutes) {
            (0, 0, 0) if self.0 < 1000 && self.0 > 0 => format!("{}ms", self.0),
            (0, 0, 0) => format!("{seconds}s"),
            (0, 0, _) if seconds.is_multiple_of(60) || minutes >= 10 => format!("{minutes}m"),
            (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
            (0, _, _) => format!("{hours}h{:02}", minutes % 60),
            _ => format!("{days}d{:02}h", hours % 24),
        };
        f.pad(&text)
    }
}

impl Timestamp {
    /// The time `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn after(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time since `earlier`; zero if this is before it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}
