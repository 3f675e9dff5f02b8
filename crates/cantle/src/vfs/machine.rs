//! The resources of the machine.
#![expect(clippy::disallowed_methods, reason = "the operating system's own files say what the machine has")]

use std::fs;

/// Bytes of memory that this process may use: the machine's, or its control group's if that is
/// less. `None` if neither can be read.
pub(crate) fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{path}/memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
            }
            _ => return None,
        };
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    limits.chain(machine).min()
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(parse_meminfo("MemFree: 1 kB\nMemTotal:   2048 kB\n"), Some(2 << 20));
        assert!(memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
