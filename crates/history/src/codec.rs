//! Integers as bytes. A column has its own width in bits, so that a steady series needs almost
//! nothing, and noise as many bits as it has.

/// Appends an integer of seven bits a byte, lowest first.
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

/// Takes an integer from the front; `None` at the end of the bytes.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
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
    u32::try_from(take_varint(bytes)?).ok()
}

/// The head of a column: the width in bits, with flags.
const WIDTH: u8 = 0x7f;
const HAS_ABSENT: u8 = 0x80;
/// A head alone: no value is present.
const ALL_ABSENT: u8 = WIDTH;

/// Appends `n` values: the head, a bit for each value if some are absent, the smallest value, and
/// the distances from it in the width of the largest.
pub fn put_column(bytes: &mut Vec<u8>, n: usize, value: &dyn Fn(usize) -> Option<u64>) {
    let present = || (0..n).filter_map(value);
    let (Some(min), Some(max)) = (present().min(), present().max()) else {
        return bytes.push(ALL_ABSENT);
    };
    let has_absent = present().count() < n;
    let width = u64::BITS - (max - min).leading_zeros();
    bytes.push((width & 0x7f) as u8 | if has_absent { HAS_ABSENT } else { 0 });
    if has_absent {
        put_bits(bytes, 1, (0..n).map(|ix| u64::from(value(ix).is_some())));
    }
    put_varint(bytes, min);
    put_bits(bytes, width, present().map(|value| value - min));
}

/// Takes `n` values that [`put_column`] appended; `None` if the bytes are damaged.
pub fn take_column(bytes: &mut &[u8], n: usize, see: &mut dyn FnMut(usize, u64)) -> Option<()> {
    let (&head, rest) = bytes.split_first()?;
    *bytes = rest;
    if head == ALL_ABSENT {
        return Some(());
    }
    let width = u32::from(head & WIDTH);
    let mut places: Vec<usize> = Vec::with_capacity(n);
    if head & HAS_ABSENT == 0 {
        places.extend(0..n);
    } else {
        let mut ix = 0;
        take_bits(bytes, 1, n, &mut |is_present| {
            places.extend((is_present == 1).then_some(ix));
            ix += 1;
        })?;
    }
    let min = take_varint(bytes)?;
    let mut places_left = places.iter();
    take_bits(bytes, width, places.len(), &mut |value| {
        if let Some(ix) = places_left.next() {
            see(*ix, min.wrapping_add(value));
        }
    })
}

fn put_bits(bytes: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    let (mut waiting, mut n_waiting) = (0_u128, 0);
    for value in values {
        waiting |= u128::from(value) << n_waiting;
        n_waiting += width;
        while n_waiting >= 8 {
            bytes.push((waiting & 0xff) as u8);
            waiting >>= 8;
            n_waiting -= 8;
        }
    }
    if n_waiting > 0 {
        bytes.push((waiting & 0xff) as u8);
    }
}

fn take_bits(bytes: &mut &[u8], width: u32, n: usize, see: &mut dyn FnMut(u64)) -> Option<()> {
    let n_bytes = n.checked_mul(usize::try_from(width).ok().filter(|width| *width <= 64)?)?;
    let (mut packed, rest) = bytes.split_at_checked(n_bytes.div_ceil(8))?;
    *bytes = rest;
    let mask = (1_u128 << width) - 1;
    let (mut waiting, mut n_waiting) = (0_u128, 0);
    for _ in 0..n {
        while n_waiting < width {
            let (&byte, rest) = packed.split_first()?;
            packed = rest;
            waiting |= u128::from(byte) << n_waiting;
            n_waiting += 8;
        }
        see(u64::try_from(waiting & mask).ok()?);
        waiting >>= width;
        n_waiting -= width;
    }
    Some(())
}

/// Appends a checksum to the bytes of a block.
pub fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// The bytes of a block without their checksum; `None` if they are damaged.
pub fn open(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = bytes.split_last_chunk()?;
    (crc32fast::hash(bytes) == u32::from_le_bytes(*sum)).then_some(bytes)
}
