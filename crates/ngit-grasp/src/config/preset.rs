//! `NGIT_TEST=1`: shorter timers, for harnesses that would otherwise wait for minutes.
//!
//! It is a set of other defaults for ordinary settings, and ends here: no other code knows of it. What
//! is set explicitly still wins.

/// The settings that the preset changes, and to what.
pub(crate) const TEST_PRESET: &[(&str, &str)] = &[
    ("purgatory_sweep_secs", "1"),
    ("hunt_delay_ms", "500"),
    ("hunt_delay_synced_ms", "100"),
    ("sync_startup_jitter_ms", "0"),
    ("sync_notice_window_ms", "200"),
];

/// The preset's value for a field.
pub(crate) fn of(field: &str) -> Option<&'static str> {
    TEST_PRESET
        .iter()
        .find(|(name, _)| *name == field)
        .map(|(_, value)| *value)
}
