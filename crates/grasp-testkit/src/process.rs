//! What a process and its children cost the machine.

use std::collections::BTreeMap;

/// A process and all below it, as they are now.
pub fn tree(root: u32) -> Vec<u32> {
    let mut parents = BTreeMap::<u32, Vec<u32>>::new();
    for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue; // ended meanwhile
        };
        // The name may hold anything, even ')': what follows the last one is plain.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        if let Some(parent) = after.split_whitespace().nth(1).and_then(|p| p.parse().ok()) {
            parents.entry(parent).or_default().push(pid);
        }
    }
    let mut tree = vec![root];
    let mut at = 0;
    while at < tree.len() {
        tree.extend(parents.get(&tree[at]).into_iter().flatten());
        at += 1;
    }
    tree
}

/// Private memory of a process and all below it, in bytes: what would come back if they ended. Mapped
/// files count as far as nobody else maps them.
pub fn private_memory(root: u32) -> u64 {
    tree(root).into_iter().map(private_memory_of).sum()
}

fn private_memory_of(pid: u32) -> u64 {
    let Ok(rollup) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
        return 0; // ended meanwhile
    };
    (kib(&rollup, "Private_Clean:") + kib(&rollup, "Private_Dirty:")) * 1024
}

/// Resident memory of a process and all below it, in bytes.
pub fn resident_memory(root: u32) -> u64 {
    tree(root).into_iter().map(resident_memory_of).sum()
}

/// Resident memory of one process alone, in bytes.
pub fn resident_memory_of(pid: u32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_or(0, |status| kib(&status, "VmRSS:") * 1024)
}

/// How many processes of this machine have `text` in their command line.
pub fn with_argument(text: &str) -> usize {
    let has = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    processes.filter(has).count()
}

/// How many threads a process runs.
pub fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// How many files a process holds open.
pub fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn kib(text: &str, field: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}
