//! The progress of a long step, on standard error: a bar with rate on a terminal, elsewhere a plain
//! line now and then.

use crate::output::{human_count, note};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Interval at which a bar is drawn: smooth to the eye, nothing to the step.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The progress of one step. Belongs to one thread; the bar goes when it is dropped.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    total: Option<u64>,
    started: Instant,
    /// When to show something next.
    due: Instant,
}

impl Progress {
    /// A step described by `what` ("loading"), of `total` parts if that is known: rows, operations,
    /// or bytes of a file.
    pub(crate) fn new(what: impl Into<String>, total: Option<u64>) -> Self {
        let what = what.into();
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(total, target).with_prefix(what.clone());
            let template = match total {
                Some(_) => "   {prefix} {wide_bar:.cyan/240} {percent:>3} %  {msg}  {eta:>4}",
                None => "   {spinner:.cyan} {prefix}  {msg}  {elapsed}",
            };
            // A template that does not parse leaves the default look.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar
        });
        let started = Instant::now();
        let due = started + if bar.is_some() { BAR_INTERVAL } else { LINE_INTERVAL };
        Self { bar, what, total, started, due }
    }

    /// `done` of the total's parts are finished. Cheap enough to call every few hundred of them.
    pub(crate) fn at(&mut self, done: u64) {
        self.set(done, done);
    }

    /// As [`at`](Self::at), where what is counted for the rate, `count`, is not what the total is
    /// made of.
    pub(crate) fn set(&mut self, count: u64, done: u64) {
        // The bar shows its percents itself.
        let (started, total) = (self.started, self.total.filter(|_| self.bar.is_none()));
        self.show_at(done, || {
            let rate = count as f64 / started.elapsed().as_secs_f64().max(0.001);
            let percent = total.map(|total| done.saturating_mul(100) / total.max(1));
            let percent = percent.map_or(String::new(), |percent| format!("{percent} %  "));
            format!("{percent}{}  {}/s", human_count(count), human_count(rate as u64))
        });
    }

    /// Shows figures of a step that nobody knows the end of, if it is time to.
    pub(crate) fn show(&mut self, figures: impl FnOnce() -> String) {
        self.show_at(0, figures);
    }

    fn show_at(&mut self, done: u64, figures: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        match &self.bar {
            Some(bar) => {
                self.due = now + BAR_INTERVAL;
                bar.set_position(done);
                bar.set_message(figures());
            }
            None => {
                self.due = now + LINE_INTERVAL;
                note(format_args!("{}: {}", self.what, figures()));
            }
        }
    }

    /// Writes a line without breaking the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(line)),
            None => note(line),
        }
    }

    /// Since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
