//! Runs the simulator from a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use grasp_testkit::sim;

const USAGE: &str = "grasp-testkit sim [--seeds N] [--first K] [--trace]

  --seeds N   so many runs; 200 if not said
  --first K   the seed of the first; 0 if not said
  --trace     prints all that happens, one run after the other
";

/// What was asked for.
#[derive(Debug)]
struct Wish {
    first: u64,
    seeds: u64,
    traced: bool,
}

impl Wish {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut wish = Self {
            first: 0,
            seeds: 200,
            traced: false,
        };
        if words.next()? != "sim" {
            return None;
        }
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seeds" => wish.seeds = words.next()?.parse().ok()?,
                "--first" => wish.first = words.next()?.parse().ok()?,
                "--trace" => wish.traced = true,
                _ => return None,
            }
        }
        Some(wish)
    }

    /// Whether no run failed.
    fn carry_out(&self) -> io::Result<bool> {
        let mut out = io::stdout().lock();
        let seeds = self.first..self.first.saturating_add(self.seeds);
        if !self.traced {
            return match sim::search(seeds) {
                None => writeln!(
                    out,
                    "{} seeds from {} on: all is well",
                    self.seeds, self.first
                )
                .map(|()| true),
                Some(failure) => write!(out, "{failure}").map(|()| false),
            };
        }
        for seed in seeds {
            let (trace, outcome) = sim::replay(seed);
            for line in trace {
                writeln!(out, "{line}")?;
            }
            if let Err(what) = outcome {
                writeln!(out, "the run of seed {seed} failed: {what}")?;
                return Ok(false);
            }
            writeln!(out, "the run of seed {seed} ended well")?;
        }
        Ok(true)
    }
}

fn main() -> ExitCode {
    let Some(wish) = Wish::read(std::env::args().skip(1)) else {
        // Nobody is left to tell if that fails.
        let _ = io::stderr().write_all(USAGE.as_bytes());
        return ExitCode::from(2);
    };
    match wish.carry_out() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}
