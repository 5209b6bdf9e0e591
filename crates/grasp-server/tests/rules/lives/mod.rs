//! Random lives of one project on the real service (real store, real git, a clock that tests move): after
//! every step it serves, keeps and shows what a naive reading of the rules says ([`crate::naive`]).
//!
//! A life is a seed: it and its steps are printed when it fails, after it was made as short as it gets.
//! `GRASP_TEST_LIVES=n` lives more of them, `GRASP_TEST_SEED=n` begins elsewhere.

mod check;
mod draw;
mod episodes;
mod life;
mod operate;
mod step;
mod words;
mod write;

use std::fmt::Write as _;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use life::Life;
use step::Step;

/// How many lives are lived; `GRASP_TEST_LIVES` asks for more.
const LIVES: u64 = 60;
/// How often a failing life is made shorter.
const SHORTENINGS: u32 = 400;

fn from_environment(name: &str, default: u64) -> u64 {
    let wanted = std::env::var(name).ok();
    wanted.map_or(default, |number| number.parse().expect("a number"))
}

fn live(steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut life = Life::begin().await;
        for step in steps {
            life.take(step).await;
            life.check().await;
        }
        life.check_objects();
    });
}

/// Lives the life of one seed. If it fails, the shortest one that fails too.
fn live_seed(seed: u64) -> Result<(), String> {
    let config = Config {
        cases: 1,
        max_shrink_iters: u32::try_from(from_environment("GRASP_TEST_SHORTEN", SHORTENINGS.into()))
            .expect("a small number"),
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let lived = TestRunner::new_with_rng(config, random).run(&draw::life(), |steps| {
        live(&steps);
        Ok(())
    });
    lived.map_err(|failure| match failure {
        TestError::Fail(reason, steps) => told(seed, &steps, &reason.to_string()),
        TestError::Abort(reason) => reason.to_string(),
    })
}

fn told(seed: u64, steps: &[Step], reason: &str) -> String {
    let mut text = format!("the life of seed {seed} fails (GRASP_TEST_SEED={seed}):\n");
    for (number, step) in (1..).zip(steps) {
        let _ = writeln!(text, "{number:3}. {step}");
    }
    let _ = write!(text, "then: {reason}");
    text
}

/// REF-1 … REF-6, ST-1 … ST-6, ANN-2 … ANN-6, PR-1 … PR-5, PUSH-2 … PUSH-14, AFTER-1 … AFTER-5, PUR-1 … PUR-15,
/// DEL-1 … DEL-9, DEL-11, DEL-12, ANN-1, EV-4, REL-2; design §13
#[test]
fn whatever_happens_the_server_does_what_the_rules_say() {
    let first = from_environment("GRASP_TEST_SEED", 0);
    for seed in first..first + from_environment("GRASP_TEST_LIVES", LIVES) {
        if let Err(told) = live_seed(seed) {
            panic!("{told}");
        }
    }
}
