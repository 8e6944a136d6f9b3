//! Translates flags of `gbatch` into flags of `gpool submit`.

use super::ranges;
use crate::failure::Result;
use crate::foreign::flag::{PassedFlag, invalid};
use crate::foreign::mail;
use crate::foreign::translated::Translated;

/// The default priority of gflow, which corresponds to 0 in gpool.
pub const PRIORITY_USUAL: i32 = 10;

/// Translates the flags.
pub fn translate(given: &[PassedFlag]) -> Result<Translated> {
    let mut all = Translated::of(given);
    let is_shared = given.iter().any(|given| given.flag.long == "shared");
    for flag in given {
        let value = flag.value.trim();
        match flag.flag.long {
            "array" => all.flag("array", value, flag),
            "begin" => all.flag("begin", &moment(value), flag),
            "conda-env" => all.flag("conda", value, flag),
            "depends-on" | "depends-on-all" => all.flag("after", value, flag),
            "depends-on-any" => all.flag("after-one", value, flag),
            "gpu-memory" if is_shared => {
                all.flag("gpu-memory", &format!("{}M", mebibytes(flag)?), flag);
            }
            "gpu-memory" => all.warnings.push(
                "--gpu-memory without --shared has no effect, as in gflow: the job gets the whole \
                 GPU"
                .to_owned(),
            ),
            "gpus" => all.flag("gpus", value, flag),
            "max-concurrent" => all.flag("max-parallel", value, flag),
            "max-retries" => {
                all.flag("retry", value, flag);
                all.flag("retry-on", "fail", flag);
            }
            "memory" => all.flag("mem", &format!("{}M", mebibytes(flag)?), flag),
            "name" => all.flag("name", value, flag),
            "no-auto-cancel" => all.flag("on-unmet", "keep", flag),
            "param" => all.flag("param", &ranges::written_out(flag)?, flag),
            "param-file" => all.flag("param-file", value, flag),
            "priority" => all.leniently("priority", &priority(flag)?.to_string(), flag),
            "project" => all.leniently("project", value, flag),
            "shared" => all.switch("shared", flag),
            "strict" => all.switch("strict", flag),
            "time" => all.flag("time", &format!("{}s", seconds(flag)?), flag),
            // The command reads this flag itself, or it is ignored.
            _ => {}
        }
    }
    let last = |long: &str| given.iter().rev().find(|given| given.flag.long == long);
    if let Some(flag) = last("notify-on") {
        all.mail.on(mail::GFLOW, flag, &mut all.ignored);
    }
    last("notify-email").map_or(Ok(()), |flag| all.mail.to(flag))?;
    all.mail.at_any_end();
    // A template names each element, so it overrides a common name.
    if let Some(template) = last("name-template") {
        all.flag("name", template.value.trim(), template);
    }
    Ok(all)
}

/// Translates a time: after `now+` a plain number means minutes.
pub fn moment(text: &str) -> String {
    let text = text.trim();
    let Some(length) = text.strip_prefix("now+").or(text.strip_prefix('+')) else {
        return text.to_owned();
    };
    let length = length.trim();
    let is_bare = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    format!("now+{length}{}", if is_bare { "m" } else { "" })
}

/// Translates a priority from gflow's range, 0 to 255 with default 10.
pub fn priority(flag: &PassedFlag) -> Result<i32> {
    match flag.value.trim().parse::<u8>() {
        Ok(priority) => Ok(i32::from(priority) - PRIORITY_USUAL),
        Err(_) => Err(invalid(flag, "is not a number from 0 to 255")),
    }
}

/// Parses `100G`, `1024M`, or a number of MB.
pub fn mebibytes(flag: &PassedFlag) -> Result<u64> {
    let text = flag.value.trim().to_ascii_uppercase();
    let text = text.strip_suffix('B').unwrap_or(&text);
    let (number, factor) = match text.strip_suffix(['G', 'M']) {
        Some(number) if text.ends_with('G') => (number, 1024),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let number: Option<u64> = number.parse().ok().filter(|n| *n > 0);
    number.and_then(|number| number.checked_mul(factor)).ok_or_else(|| {
        invalid(flag, "is not an amount of memory").tip(format!("{}=20G", flag.flag.spelling()))
    })
}

/// Parses `HH:MM:SS`, `MM:SS`, or minutes into seconds.
pub fn seconds(flag: &PassedFlag) -> Result<u64> {
    let parts: Option<Vec<u64>> =
        flag.value.trim().split(':').map(|part| part.parse().ok()).collect();
    let seconds = match parts.as_deref() {
        Some([minutes]) => minutes.checked_mul(60),
        Some([minutes, seconds]) => minutes.checked_mul(60).and_then(|s| s.checked_add(*seconds)),
        Some([hours, minutes, seconds]) => hours
            .checked_mul(60)
            .and_then(|m| m.checked_add(*minutes))
            .and_then(|m| m.checked_mul(60))
            .and_then(|s| s.checked_add(*seconds)),
        _ => None,
    };
    seconds.filter(|seconds| *seconds > 0).ok_or_else(|| {
        invalid(flag, "is not a time limit").tip(format!("{}=2:30:00", flag.flag.spelling()))
    })
}
