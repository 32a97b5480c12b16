//! The memory of this machine.

use std::fs;

/// The machine's memory in MiB if `mib` MiB are no less than all of it: the system would end the
/// program. `None` also where the memory cannot be read (other systems than Linux).
#[must_use]
pub fn memory_without_room_for(mib: u64) -> Option<u64> {
    machine_memory_mib().filter(|machine| mib >= *machine)
}

fn machine_memory_mib() -> Option<u64> {
    total_mib(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// From the first line of `/proc/meminfo`, `MemTotal:  24037812 kB`.
fn total_mib(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_its_line() {
        assert_eq!(
            total_mib("MemTotal:       24037812 kB\nMemFree:         1024 kB\n"),
            Some(23_474)
        );
        for other in
            ["", "MemFree: 1024 kB", "MemTotal: 24037812", "MemTotal: much kB", "MemTotal: -1 kB"]
        {
            assert_eq!(total_mib(other), None, "{other}");
        }
        // Tests allocate more than this.
        assert_eq!(memory_without_room_for(64), None);
        assert_eq!(memory_without_room_for(u64::MAX), machine_memory_mib());
    }
}
