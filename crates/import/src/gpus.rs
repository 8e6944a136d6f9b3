//! Models, memory and numbers of GPUs of other tools as values of `--gpus`.

use gpool_yaml::YamlError;

use crate::amounts;

/// Models with several sizes of memory, which the driver's name tells apart, and the sizes in GB.
const SIZED: &[(&str, &[u128])] =
    &[("a100", &[40, 80]), ("h100", &[80, 94, 96]), ("v100", &[16, 32]), ("p100", &[12, 16])];

/// The part of the nominal memory that drivers report at least, in percent: an A10G with 24 GB has
/// 23,028 MiB.
const REPORTED_PERCENT: u128 = 93;

/// Names that are no models of NVIDIA.
const OTHERS: &[&str] = &["tpu", "trainium", "inferentia", "gaudi", "mi", "amd", "tenstorrent"];

/// GPUs of a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct GpuSpec {
    /// Acceptable models as written, the first one preferred.
    pub models: Vec<String>,
    /// The nominal memory in bytes.
    pub memory: Option<u128>,
    /// Whether more memory is fine, too.
    pub is_least: bool,
    /// A number or fraction.
    pub count: String,
}

impl GpuSpec {
    /// The value of `--gpus`, and a remark if it is not exactly the same.
    pub fn flag(&self, line: usize) -> Result<(String, Option<String>), YamlError> {
        let models: Vec<String> =
            self.models.iter().map(|name| model(name, line)).collect::<Result<_, _>>()?;
        let count = &self.count;
        if models.is_empty() {
            let Some(memory) = self.memory else { return Ok((count.clone(), None)) };
            let least = amounts::size((memory * REPORTED_PERCENT / 100) >> 20 << 20);
            let remark =
                format!("at least {least}, since drivers report less than the nominal memory");
            return Ok((format!("{least}..:{count}"), Some(remark)));
        }
        let Some(memory) = self.memory else {
            return Ok((format!("{}:{count}", models.join("|")), None));
        };
        let mut names = Vec::new();
        let mut remark = None;
        for name in &models {
            let Some((_, sizes)) = SIZED.iter().find(|(model, _)| model == name) else {
                remark = Some("the model alone decides the memory".to_owned());
                names.push(name.clone());
                continue;
            };
            let gigabytes = memory.div_ceil(1 << 30);
            let fits = |size: &&u128| **size == gigabytes || self.is_least && **size > gigabytes;
            let fitting: Vec<&u128> = sizes.iter().filter(fits).collect();
            match fitting.len() {
                0 => {
                    return Err(YamlError::new(line, format!("no {name} has {gigabytes} GB"))
                        .advice("choose another model or memory"));
                }
                n if n == sizes.len() => names.push(name.clone()),
                _ => names.extend(fitting.iter().map(|size| format!("{name}-{size}g"))),
            }
        }
        Ok((format!("{}:{count}", names.join("|")), remark))
    }
}

/// A model as a pattern of gpool: words of the driver's name.
fn model(name: &str, line: usize) -> Result<String, YamlError> {
    let lower = name.trim().to_ascii_lowercase();
    let is_other = OTHERS.iter().any(|other| {
        lower.strip_prefix(other).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || "-_:".contains(c))
        })
    });
    if is_other {
        return Err(YamlError::new(line, format!("{name:?} is no GPU of NVIDIA"))
            .advice("gpool schedules GPUs of NVIDIA"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_ .".contains(c);
    if !lower.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !lower.contains(|c: char| c.is_ascii_alphabetic())
        || !lower.chars().all(is_plain)
    {
        return Err(YamlError::new(line, format!("{name:?} is no model of a GPU"))
            .advice("write a name such as H100"));
    }
    // The driver writes "RTX 4090", "RTX 6000 Ada" and "RTX PRO 6000" in words of their own.
    let Some(rest) = ["rtx", "gtx"].iter().find_map(|start| lower.strip_prefix(start)) else {
        return Ok(lower);
    };
    let mut words = vec![&lower[..3]];
    let rest = rest.trim_start_matches(['-', ' ', '_']);
    let rest = match rest.strip_prefix("pro") {
        Some(rest) => {
            words.push("pro");
            rest.trim_start_matches(['-', ' ', '_'])
        }
        None => rest,
    };
    match rest.strip_suffix("ada") {
        Some(number) => words.extend([number.trim_end_matches(['-', ' ', '_']), "ada"]),
        None => words.push(rest),
    }
    words.retain(|word| !word.is_empty());
    Ok(words.join("-"))
}

/// The least number of a range `2..8`, `2..` or `..8`, and whether it is a range.
pub(crate) fn least(text: &str) -> Option<(u32, bool)> {
    match text.split_once("..") {
        None => text.trim().parse().ok().map(|count| (count, false)),
        Some((least, most)) => {
            let number = |text: &str| match text.trim() {
                "" => Some(1),
                text => text.parse().ok(),
            };
            number(most)?;
            Some((number(least)?, true))
        }
    }
}
