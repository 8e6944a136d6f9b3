//! Results of the driver's calls.
//!
//! Source: `CUresult` in NVIDIA's `cuda.h`.

/// `CUresult`.
pub(crate) type Code = u32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const OPERATING_SYSTEM: Code = 304;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const ILLEGAL_STATE: Code = 401;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const NOT_SUPPORTED: Code = 801;
pub(crate) const UNKNOWN: Code = 999;

/// Writes a value through the caller's pointer.
pub(crate) fn give<T>(out: Option<&mut T>, value: T) -> Result<(), Code> {
    *out.ok_or(INVALID_VALUE)? = value;
    Ok(())
}
