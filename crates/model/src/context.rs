//! The launch context of a job, and its encoding as bytes.

use serde::{Deserialize, Serialize};

/// The environment, limits and umask that a job inherits from the process that submits it. Stored
/// as a blob: never in a record, the journal, the API or a log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaunchContext {
    /// Names and values as bytes, since the operating system does not require UTF-8.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Resource limits of the caller: kind by the kernel's number, soft, hard; `None` is
    /// unlimited.
    pub limits: Vec<(u32, Option<u64>, Option<u64>)>,
    /// File mode creation mask of the caller.
    pub umask: Option<u32>,
}

/// The first byte of a context that [`LaunchContext::bytes`] writes. Layouts up to 3 wrote JSON,
/// which begins with a brace.
const FORMAT: u8 = 1;
const UNLIMITED: u64 = u64::MAX;

impl LaunchContext {
    /// The context as bytes: each name and value follows its length, so nothing needs to be
    /// escaped.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let of_entries = self.environment.iter().map(|(name, value)| 8 + name.len() + value.len());
        let mut bytes = Vec::with_capacity(16 + of_entries.sum::<usize>() + 20 * self.limits.len());
        bytes.push(FORMAT);
        number(&mut bytes, self.environment.len());
        for part in self.environment.iter().flat_map(|(name, value)| [name, value]) {
            number(&mut bytes, part.len());
            bytes.extend_from_slice(part);
        }
        number(&mut bytes, self.limits.len());
        for (kind, soft, hard) in &self.limits {
            bytes.extend_from_slice(&kind.to_le_bytes());
            // The kernel's constant for no limit.
            bytes.extend_from_slice(&soft.unwrap_or(UNLIMITED).to_le_bytes());
            bytes.extend_from_slice(&hard.unwrap_or(UNLIMITED).to_le_bytes());
        }
        bytes.extend(self.umask.iter().flat_map(|mask| mask.to_le_bytes()));
        bytes
    }

    /// Reads the output of [`Self::bytes`]; `None` for anything else.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[FORMAT])?;
        let mut read = Self::default();
        for _ in 0..take_number(&mut rest)? {
            let (name, value) = (take_part(&mut rest)?, take_part(&mut rest)?);
            read.environment.push((name, value));
        }
        let limit = |bytes| Some(u64::from_le_bytes(bytes)).filter(|limit| *limit != UNLIMITED);
        for _ in 0..take_number(&mut rest)? {
            let kind = take_number(&mut rest)?;
            let (soft, hard) = (limit(take(&mut rest)?), limit(take(&mut rest)?));
            read.limits.push((kind, soft, hard));
        }
        read.umask = match rest {
            [] => None,
            _ => Some(take_number(&mut rest)?),
        };
        rest.is_empty().then_some(read)
    }
}

/// Requests are far smaller than four bytes can count.
fn number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn take_part(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken.to_vec())
}
