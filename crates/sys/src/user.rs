//! Accounts and groups from the system's name service.

use std::ffi::{CStr, CString};

/// One line of the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswdEntry {
    pub name: Vec<u8>,
    pub uid: u32,
    pub gid: u32,
    pub home: Vec<u8>,
    pub shell: Vec<u8>,
}

/// Looks up a user ID; `None` if it is unknown or the name service does not answer.
#[must_use]
pub fn account(uid: u32) -> Option<PasswdEntry> {
    look_up(|entry, buffer, found| {
        // SAFETY: all pointers are valid during the call, and the buffer's length is passed; the
        // strings of `entry` point into `buffer`.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// Looks up a login name; `None` if it is unknown or the name service does not answer.
#[must_use]
pub fn account_named(name: &str) -> Option<PasswdEntry> {
    let name = CString::new(name).ok().filter(|name| !name.is_empty())?;
    look_up(|entry, buffer, found| {
        // SAFETY: as for `account`; the name is a C string that outlives the call.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// The most groups that are requested.
const GROUPS_MAX: usize = 1024;

/// Returns the names of a user's groups, including the primary one; groups without a name are left
/// out.
#[must_use]
pub fn groups(account: &PasswdEntry) -> Vec<Vec<u8>> {
    let Ok(name) = CString::new(account.name.clone()) else { return Vec::new() };
    let mut gids = vec![0 as libc::gid_t; GROUPS_MAX];
    let mut n_gids = libc::c_int::try_from(gids.len()).expect("a small number");
    // SAFETY: the name is a C string that outlives the call, and the array has `n_gids` places;
    // groups that do not fit are left out.
    unsafe { libc::getgrouplist(name.as_ptr(), account.gid, gids.as_mut_ptr(), &raw mut n_gids) };
    gids.truncate(usize::try_from(n_gids).unwrap_or(0));
    gids.into_iter().filter_map(group_name).collect()
}

/// Returns the name of a group; `None` if it is unknown or the name service does not answer.
#[must_use]
pub fn group_name(gid: u32) -> Option<Vec<u8>> {
    let mut buffer = vec![0 as libc::c_char; 4096];
    loop {
        // SAFETY: `group` is plain data (pointers and numbers), and zeros are valid.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (at, n_bytes) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: all pointers are valid during the call, and the buffer's length is passed; the
        // strings of `entry` point into `buffer`.
        let error = unsafe { libc::getgrgid_r(gid, &raw mut entry, at, n_bytes, &raw mut found) };
        if error == libc::ERANGE && buffer.len() < 1 << 20 {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if error != 0 || found.is_null() || entry.gr_name.is_null() {
            return None;
        }
        // SAFETY: not null, so it is a C string in `buffer`, which is still alive.
        return Some(unsafe { CStr::from_ptr(entry.gr_name) }.to_bytes().to_vec());
    }
}

fn look_up(
    ask: impl Fn(&mut libc::passwd, &mut [libc::c_char], &mut *mut libc::passwd) -> libc::c_int,
) -> Option<PasswdEntry> {
    let mut buffer = vec![0 as libc::c_char; 4096];
    loop {
        // SAFETY: `passwd` is plain data (pointers and numbers), and zeros are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let error = ask(&mut entry, &mut buffer, &mut found);
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
            // SAFETY: not null, so it is a C string in `buffer`, which is still alive.
            unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
        };
        return Some(PasswdEntry {
            name: text(entry.pw_name),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            home: text(entry.pw_dir),
            shell: text(entry.pw_shell),
        });
    }
}
