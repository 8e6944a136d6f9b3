//! How the C library's allocator keeps what is freed.

/// Lets all threads share a few arenas. Without it each thread gets its own, and what passes from
/// one thread to another is freed where nobody allocates: after 40,000 jobs a server held 172 MB
/// instead of 103 MB (measured 2026-11 with glibc 2.36). Call it before any thread is started.
pub fn share_arenas() {
    #[cfg(target_env = "gnu")]
    {
        // Two, so that a thread that frees much does not stop all others.
        const ARENAS: libc::c_int = 2;
        // SAFETY: it sets a number in the allocator; a value that it refuses changes nothing.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}

/// Gives what is free back to the system. After much was freed at once most of it lies between what
/// is still used, where the allocator keeps it: a server that had read 100,000 jobs held 610 MB,
/// and 175 MB afterwards (measured 2026-11 with glibc 2.36). It takes some ten milliseconds for
/// that, during which other threads wait for memory.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it moves nothing that is in use.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
