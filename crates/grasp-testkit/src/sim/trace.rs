//! What happened in a run, line by line. Kept outside of the run, so that it is there when the run failed.

use std::cell::RefCell;
use std::rc::Rc;

/// Takes down what happens, if anybody wants to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Option<Rc<RefCell<Vec<String>>>>);

impl Trace {
    /// One that takes everything down.
    pub(crate) fn kept() -> Self {
        Self(Some(Rc::default()))
    }

    pub(crate) fn add(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            lines.borrow_mut().push(line());
        }
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |lines| lines.borrow().clone())
    }
}
