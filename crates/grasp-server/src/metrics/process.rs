//! What the kernel knows of this process and its control group.

use std::fs;
use std::path::PathBuf;

use grasp_metrics::{Sort, Text};

/// Writes `process_*` and `ngit_cgroup_*`. What cannot be read has no series.
pub(super) fn render(text: &mut Text) {
    if let Some(process) = Process::read() {
        process.render(text);
    }
    if let Some(group) = group() {
        render_group(text, &group);
    }
}

/// Of `/proc/self`.
#[derive(Debug, PartialEq)]
struct Process {
    cpu_seconds: f64,
    threads: u64,
    resident_bytes: u64,
    virtual_bytes: u64,
    start_seconds: Option<f64>,
    open_fds: Option<usize>,
    max_fds: Option<u64>,
}

impl Process {
    fn read() -> Option<Self> {
        let stat = Stat::parse(&fs::read_to_string("/proc/self/stat").ok()?)?;
        #[expect(clippy::cast_precision_loss, reason = "ticks of years are below 2^52")]
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        let booted = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| field(&text, "btime"));
        #[expect(clippy::cast_precision_loss, reason = "seconds are below 2^52")]
        let booted = booted.map(|seconds| seconds as f64);
        Some(Self {
            cpu_seconds: seconds(stat.cpu_ticks),
            threads: stat.threads,
            resident_bytes: stat.resident_pages * rustix::param::page_size() as u64,
            virtual_bytes: stat.virtual_bytes,
            start_seconds: booted.map(|booted| booted + seconds(stat.start_ticks)),
            // One of them is the directory that is being read.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|fds| fds.count() - 1),
            max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        })
    }

    fn render(&self, text: &mut Text) {
        text.counter(
            "process_cpu_seconds_total",
            "Processor time used, in seconds.",
            self.cpu_seconds,
        );
        text.gauge("process_threads", "Threads.", self.threads);
        text.gauge(
            "process_resident_memory_bytes",
            "Memory in use, mapped pages of the store included.",
            self.resident_bytes,
        );
        text.gauge(
            "process_virtual_memory_bytes",
            "Address space; most of it is the store's reservation.",
            self.virtual_bytes,
        );
        if let Some(start) = self.start_seconds {
            let help = "When the process started, in seconds since 1970.";
            text.gauge("process_start_time_seconds", help, start);
        }
        if let Some(open) = self.open_fds {
            text.gauge("process_open_fds", "Open file descriptors.", open);
        }
        if let Some(most) = self.max_fds {
            text.gauge("process_max_fds", "Most file descriptors.", most);
        }
    }
}

/// Of `/proc/self/stat`, see proc(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// The name, in brackets, may hold anything, brackets too.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The manual counts from 1 and from the process id; `rest` begins with field 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: number(14)? + number(15)?,
            threads: number(20)?,
            start_ticks: number(22)?,
            virtual_bytes: number(23)?,
            resident_pages: number(24)?,
        })
    }
}

/// The folder of our group, with version 2 of control groups.
fn group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from("/sys/fs/cgroup").join(path))
}

fn render_group(text: &mut Text, group: &std::path::Path) {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    if let Some(micros) = read("cpu.stat").and_then(|stat| field(&stat, "usage_usec")) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a century are below 2^52"
        )]
        let seconds = micros as f64 / 1e6;
        text.metric(
            "ngit_cgroup_cpu_seconds_total",
            Sort::Counter,
            "Processor time of the control group, git's included, in seconds.",
        )
        .sample(&[], seconds);
    }
    if let Some(bytes) = read("memory.current").and_then(|it| it.trim().parse::<u64>().ok()) {
        text.gauge(
            "ngit_cgroup_memory_current_bytes",
            "Memory of the control group, git's and cached files included.",
            bytes,
        );
    }
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, number) = line.split_once(' ')?;
        (found == name).then(|| number.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let text =
            "42 (a) b (c) S 1 42 42 0 -1 4194560 500 0 0 0 7 5 0 0 20 0 9 0 1234 8192000 300 99";
        let expected = Stat {
            cpu_ticks: 12,
            threads: 9,
            start_ticks: 1234,
            virtual_bytes: 8_192_000,
            resident_pages: 300,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("42 (short) S 1"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let process = Process::read().expect("there is /proc");
        assert!(process.resident_bytes > 1 << 20 && process.threads >= 1);
        assert!(process.open_fds.is_some_and(|open| open >= 3));
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970");
        let age = now.as_secs_f64() - process.start_seconds.expect("there is /proc/stat");
        assert!((-2.0..3600.0).contains(&age), "{age}");
    }
}
