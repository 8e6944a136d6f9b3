//! The user that asks: the peer of the connection, identified by the kernel. User names in
//! requests and environment variables do not matter.

use gpool_listen::testing::{LIMITS, limits_of, parse_limits};

#[test]
fn limits_are_read_as_the_kernel_writes_them() {
    let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                Max cpu time              unlimited            unlimited            seconds\n\
                Max open files            1024                 1048576              files\n\
                Max nice priority         0                    0                    \n";
    let limits = parse_limits(text);
    assert_eq!(limits, [(0, None, None), (7, Some(1024), Some(1_048_576)), (13, Some(0), Some(0))]);
}

#[test]
fn a_process_of_another_user_is_not_believed() {
    let own = std::process::id();
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(limits_of(own, uid).map(|limits| limits.len()), Some(LIMITS.len()));
    assert_eq!(limits_of(own, uid + 1), None);
}
