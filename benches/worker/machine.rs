//! What the kernel says of this process.

use std::{fs, time::Duration};

/// The resident memory of a process now, in KiB.
pub(crate) fn resident(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

/// The processor time that this process has used, to the nanosecond.
pub(crate) fn processor_time() -> Duration {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes the time to where it is told, which is there.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) };
    assert_eq!(done, 0, "the processor time cannot be read");
    let nanoseconds = u32::try_from(used.tv_nsec).expect("less than a second");
    Duration::new(u64::try_from(used.tv_sec).expect("seconds"), nanoseconds)
}
