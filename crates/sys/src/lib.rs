//! Operating system calls: pidfd, cgroups, subreaper.
