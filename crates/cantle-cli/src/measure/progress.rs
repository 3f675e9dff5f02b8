//! How far a long step is: a bar on a terminal, a few plain lines otherwise, both on standard error.

use super::display;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a step that has no terminal says where it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// One step's progress. Belongs to one thread.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    total: u64,
    started: Instant,
    next_line: Instant,
}

impl Progress {
    /// A step of `total` operations, described by `what`.
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let style = "  {msg} {wide_bar:.cyan/240} {percent:>3} %  {human_pos}  {per_sec:>14}  {eta:>4}";
            // A template that does not parse leaves the default look.
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar.set_message(what.to_string());
            bar
        });
        Self { bar, what: what.into(), total, started: now, next_line: now + LINE_INTERVAL }
    }

    /// `done` operations are finished. Cheap enough to call every few hundred operations.
    pub(crate) fn at(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return;
        }
        let now = Instant::now();
        if now >= self.next_line {
            self.next_line = now + LINE_INTERVAL;
            let percent = display::ratio(done * 100, self.total);
            let rate = display::rate(done, now - self.started);
            // Progress that cannot be shown is not worth an error.
            let _ = writeln!(std::io::stderr(), "{}: {percent:.0} %, {rate:.0} per second", self.what);
        }
    }
}

impl Drop for Progress {
    /// The bar goes; what the step measured is printed by others.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
