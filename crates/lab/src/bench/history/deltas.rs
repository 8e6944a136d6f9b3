//! Columns as differences of variable length, compressed by zstd: the usual alternative to the
//! columns of the store.

use std::io;

use gpool_history::testing::{put, take};
use zstd::bulk::{Compressor, Decompressor};

/// No block is longer.
const LENGTH_MAX: usize = 1 << 20;

/// Compresses with memory that is used again.
pub struct Packer {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(3)?;
        compressor.include_checksum(true)?;
        Ok(Self { compressor, decompressor: Decompressor::new()? })
    }

    /// The columns as bytes.
    pub fn pack(
        &mut self,
        columns: &mut dyn Iterator<Item = &[Option<u32>]>,
    ) -> io::Result<Vec<u8>> {
        let (mut bytes, mut last) = (Vec::new(), 0_u32);
        for value in columns.flatten() {
            let Some(value) = *value else {
                bytes.push(0);
                continue;
            };
            let difference = i64::from(value) - i64::from(last);
            put(&mut bytes, (difference << 1 ^ difference >> 63).cast_unsigned() + 1);
            last = value;
        }
        self.compressor.compress(&bytes)
    }

    /// The first values of the columns.
    pub fn unpack(&mut self, packed: &[u8], values: &mut [Option<u32>]) -> io::Result<()> {
        let bytes = self.decompressor.decompress(packed, LENGTH_MAX)?;
        let (mut bytes, mut last) = (bytes.as_slice(), 0_i64);
        for value in values {
            // The last group of devices may be small.
            let Some(coded) = take(&mut bytes) else { break };
            *value = coded.checked_sub(1).and_then(|coded| {
                last += (coded >> 1).cast_signed() ^ -((coded & 1).cast_signed());
                u32::try_from(last).ok()
            });
        }
        Ok(())
    }
}
