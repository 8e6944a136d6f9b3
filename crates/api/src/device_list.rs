//! Lists of devices in requests.

use gpool_model::Refusal;
use gpool_model::escape::repeated;

/// Maximum number of devices of a node.
const DEVICES_MAX: u32 = 4096;

/// Returns the devices of a list, with ranges expanded; `None` for all.
pub fn devices_of(written: &[String]) -> Result<Option<Vec<String>>, Refusal> {
    let invalid = |why| Refusal::Invalid { field: "devices".to_owned(), why };
    let mut devices = Vec::new();
    for text in written {
        if text == "all" && written.len() == 1 {
            return Ok(None);
        }
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        match text.split_once('-').filter(|(from, to)| is_number(from) && is_number(to)) {
            None => devices.push(text.clone()),
            Some((from, to)) => {
                let range = from.parse::<u32>().ok().zip(to.parse::<u32>().ok());
                let range = range.filter(|(from, to)| from <= to && *to < DEVICES_MAX);
                let (from, to) = range.ok_or_else(|| {
                    invalid(format!("{:?} is not a range; write 2-5", repeated(text)))
                })?;
                devices.extend((from..=to).map(|index| index.to_string()));
            }
        }
        // Checked inside the loop: a small request can contain ranges that would fill the memory.
        if devices.len() > DEVICES_MAX as usize {
            return Err(invalid(format!(
                "it has more than the maximum of {DEVICES_MAX}; write each once"
            )));
        }
    }
    Ok(Some(devices))
}
