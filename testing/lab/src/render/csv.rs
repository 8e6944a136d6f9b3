//! Comma-separated values with a header, see RFC 4180.

use csv::Writer;
use serde_json::Value;

use gpool_cli::render::safe::safe;

/// A line for each object with the values of these keys: strings as they are, nothing for null,
/// other values as JSON.
#[must_use]
pub fn of(keys: &[&str], items: &[Value]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let field = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => safe(text).into_owned(),
        other => other.to_string(),
    };
    // Writing to memory can't fail, and all lines have the same number of fields.
    let mut is_written = writer.write_record(keys).is_ok();
    for item in items {
        is_written &= writer.write_record(keys.iter().map(|key| field(&item[*key]))).is_ok();
    }
    assert!(is_written, "lines of one length are written to memory");
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}
