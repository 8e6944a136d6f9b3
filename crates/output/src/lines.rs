//! Finds lines from the end of a file.

/// The offset of the last `n_lines` lines of a sequence of bytes, within its last 64 MiB at most: a
/// job can replace its log by a sparse file of any length. `read` fills the buffer with the bytes
/// at an offset.
///
/// # Errors
/// The error of `read`.
pub(crate) fn last_lines<E>(
    length: u64,
    n_lines: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<u64, E> {
    const CHUNK: u64 = 64 * 1024;
    const FURTHEST: u64 = 64 << 20;
    if n_lines == 0 {
        return Ok(length);
    }
    let first = length.saturating_sub(FURTHEST);
    let (mut end, mut n_found) = (length, 0);
    let mut buffer = Vec::new();
    while end > first {
        let start = end.saturating_sub(CHUNK).max(first);
        buffer.resize(usize::try_from(end - start).expect("a chunk fits in memory"), 0);
        read(start, &mut buffer)?;
        for at in memchr::memrchr_iter(b'\n', &buffer) {
            let next = start + at as u64 + 1;
            // The newline at the very end ends the last line and begins none.
            if next != length {
                n_found += 1;
                if n_found == n_lines {
                    return Ok(next);
                }
            }
        }
        end = start;
    }
    Ok(first)
}
