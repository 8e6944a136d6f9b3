//! Resource usage of processes from the kernel.

use gpool_lab::bench::process::{cpu_ms_of, memory_of, threads_cpu_ms_of};

#[test]
fn a_process_that_works_has_used_something() {
    let own = std::process::id();
    let before = threads_cpu_ms_of(own);
    let mut sum = 0_u64;
    while threads_cpu_ms_of(own) < before + 30.0 {
        sum = (0..100_000).fold(sum, |sum: u64, n| sum.wrapping_mul(31).wrapping_add(n));
    }
    assert!(cpu_ms_of(own) >= 10.0, "{sum}");
    assert!(memory_of(own) > 100_000);
    assert_eq!((threads_cpu_ms_of(0), memory_of(0)), (0.0, 0));
}
