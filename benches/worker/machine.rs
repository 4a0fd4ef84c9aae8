//! What the kernel says of this process.

use std::{fs, time::Duration};

/// The resident memory of a process now, in KiB.
pub(crate) fn resident(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

/// The processor time that a process has used.
pub(crate) fn processor_time(pid: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("procfs");
    // The name of the program stands in parentheses, and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // SAFETY: it reads a constant of the system.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs_f64(ticks as f64 / a_second as f64)
}
