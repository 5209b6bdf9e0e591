//! What the fuzzers start from, as a normal test: no panic, and every input is really run.

use std::path::Path;

#[path = "../../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a library there, a module here")]
mod targets;

/// Runs a target over its corpus, under the input's name.
fn run(name: &str, target: fn(&[u8])) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let inputs = std::fs::read_dir(corpus.join(name)).expect("the target has a corpus");
    let mut count = 0;
    for input in inputs {
        let path = input.expect("readable").path();
        let bytes = std::fs::read(&path).expect("readable");
        let ended = std::panic::catch_unwind(|| target(&bytes));
        assert!(ended.is_ok(), "{} panics", path.display());
        // And cut short anywhere: a connection may end at any byte.
        for end in 0..bytes.len().min(300) {
            let ended = std::panic::catch_unwind(|| target(&bytes[..end]));
            assert!(
                ended.is_ok(),
                "the first {end} bytes of {} panic",
                path.display()
            );
        }
        count += 1;
    }
    count
}

#[test]
fn no_input_makes_a_parser_panic() {
    let inputs = [
        run("pkt_lines", targets::pkt_lines),
        run("receive_pack", targets::receive_pack),
        run("packs", targets::packs),
        run("messages", targets::messages),
        run("answers", targets::answers),
        run("events", targets::events),
        run("git_hosts", targets::git_hosts),
    ];
    assert!(inputs.iter().all(|count| *count >= 10), "{inputs:?}");
}
