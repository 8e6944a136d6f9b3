//! Times in the API: RFC 3339, UTC, milliseconds. This module reads no clock.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use gpool_model::{GpuTime, Millis, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time: `2026-11-20T15:30:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub Timestamp);

impl From<Timestamp> for Time {
    fn from(moment: Timestamp) -> Self {
        Self(moment)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A broken clock can return times after the year 9999; use the last valid time instead.
        let millis = i64::try_from(self.0.get()).unwrap_or(i64::MAX);
        let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{moment:.3}")
    }
}

impl Time {
    /// Formats the time for users in an unknown time zone: `Fri 20 Nov 15:30 UTC`.
    #[must_use]
    pub fn short(self) -> String {
        let millis = i64::try_from(self.0.get()).unwrap_or(i64::MAX);
        let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        moment.strftime("%a %d %b %H:%M UTC").to_string()
    }
}

impl Time {
    /// The start of its month in UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        let millis = i64::try_from(self.0.get()).unwrap_or(i64::MAX);
        let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        let day = moment.to_zoned(jiff::tz::TimeZone::UTC).date().first_of_month();
        let start = day.to_zoned(jiff::tz::TimeZone::UTC).map(|it| it.timestamp());
        let start = start.map_or(0, |it| it.as_millisecond());
        Self(Timestamp::new(u64::try_from(start).unwrap_or(0)))
    }
}

/// Why a time is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time since 1970; write, for example, 2026-11-20T15:30:00Z")]
pub struct TimeError(String);

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let bad = || TimeError(text.chars().take(80).collect());
        let moment: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        let millis = u64::try_from(moment.as_millisecond()).map_err(|_| bad())?;
        Ok(Self(Timestamp::new(millis)))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Returns milliseconds as seconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "exact below 285,000 years")]
pub fn seconds(span: Millis) -> f64 {
    span.get() as f64 / 1000.0
}

/// Returns GPU-time in hours of one GPU.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn gpu_hours(time: GpuTime) -> f64 {
    time.get() as f64 / GpuTime::HOUR.get() as f64
}

/// Returns seconds as a span, to the millisecond; negative ones as none.
#[must_use]
pub fn span_of(seconds: f64) -> Millis {
    let span = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Millis::new(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(
                utoipa::openapi::KnownFormat::DateTime,
            )))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Time {}
