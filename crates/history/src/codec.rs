//! Integers as bytes: variable length, differences in columns, and compression.

use crate::error::Error;

/// The code of an absent value. Stored values are smaller.
pub const ABSENT: u32 = u32::MAX;

/// The compression level. Higher levels save less than 2 % of these bytes.
const LEVEL: i32 = 3;

/// A longer block is damaged.
const LENGTH_MAX: u64 = 64 << 20;

/// Appends an integer of seven bits a byte, lowest first.
pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

/// Takes an integer from the front; `None` at the end of the bytes.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes an integer of 32 bits from the front.
pub fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

/// Appends the difference of two integers, small if they are close.
pub fn put_difference(bytes: &mut Vec<u8>, value: u64, last: u64) {
    let difference = value.wrapping_sub(last).cast_signed();
    put(bytes, (difference << 1 ^ difference >> 63).cast_unsigned());
}

/// Takes an integer that [`put_difference`] appended.
pub fn take_difference(bytes: &mut &[u8], last: u64) -> Option<u64> {
    let coded = take(bytes)?;
    let difference = (coded >> 1) ^ 0_u64.wrapping_sub(coded & 1);
    Some(last.wrapping_add(difference))
}

/// Appends values as differences from the last present one. An absent value is one zero byte.
pub fn put_column(bytes: &mut Vec<u8>, values: &[u32], last: &mut u32) {
    for &value in values {
        if value == ABSENT {
            bytes.push(0);
            continue;
        }
        let difference = i64::from(value) - i64::from(*last);
        put(bytes, (difference << 1 ^ difference >> 63).cast_unsigned() + 1);
        *last = value;
    }
}

/// Takes values that [`put_column`] appended.
pub fn take_column(bytes: &mut &[u8], values: &mut [u32], last: &mut u32) -> Option<()> {
    for value in values {
        let Some(coded) = take(bytes)?.checked_sub(1) else {
            *value = ABSENT;
            continue;
        };
        let difference = (coded >> 1).cast_signed() ^ -((coded & 1).cast_signed());
        *last = u32::try_from(i64::from(*last).checked_add(difference)?).ok()?;
        *value = *last;
    }
    Some(())
}

/// Compresses and decompresses with memory that is used again. Compressed bytes have a checksum.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Packer {
    /// Allocates.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new() -> Result<Self, Error> {
        let start = || {
            let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
            compressor.include_checksum(true)?;
            Ok(Self { compressor, decompressor: zstd::bulk::Decompressor::new()? })
        };
        start().map_err(|error: std::io::Error| Error::Compression(error.to_string()))
    }

    /// Compresses, with the length in front.
    ///
    /// # Errors
    /// Too little memory.
    pub fn pack(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let packed = self.compressor.compress(bytes);
        let packed = packed.map_err(|error| Error::Compression(error.to_string()))?;
        let mut all = Vec::with_capacity(packed.len() + 5);
        put(&mut all, bytes.len() as u64);
        all.extend(packed);
        Ok(all)
    }

    /// Decompresses; `None` if the bytes are damaged.
    pub fn unpack(&mut self, mut packed: &[u8]) -> Option<Vec<u8>> {
        let length = take(&mut packed).filter(|length| *length <= LENGTH_MAX)?;
        let length = usize::try_from(length).ok()?;
        let bytes = self.decompressor.decompress(packed, length).ok()?;
        (bytes.len() == length).then_some(bytes)
    }
}
