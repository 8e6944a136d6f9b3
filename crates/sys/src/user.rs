//! Who a user id is, as the system's name service knows it.

use std::ffi::CStr;

/// One line of the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: Vec<u8>,
    /// The primary group.
    pub gid: u32,
    /// The home directory.
    pub home: Vec<u8>,
    /// The login shell.
    pub shell: Vec<u8>,
}

/// Looks a user id up; `None` if nobody knows it or the name service does not answer.
#[must_use]
pub fn account(uid: u32) -> Option<Account> {
    let mut buffer = vec![0 as libc::c_char; 4096];
    loop {
        // SAFETY: `passwd` is plain data (pointers and numbers), for which zeros are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the length of the call, and the buffer's length is
        // given; the strings of `entry` lie in `buffer`.
        let error = unsafe {
            libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found)
        };
        if error == libc::ERANGE && buffer.len() < 1 << 20 {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if error != 0 || found.is_null() {
            return None;
        }
        let text = |pointer: *const libc::c_char| {
            if pointer.is_null() {
                return Vec::new();
            }
            // SAFETY: not null, so it is a C string within `buffer`, which is still there.
            unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
        };
        return Some(Account {
            name: text(entry.pw_name),
            gid: entry.pw_gid,
            home: text(entry.pw_dir),
            shell: text(entry.pw_shell),
        });
    }
}
