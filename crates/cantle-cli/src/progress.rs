//! How far a long command is, on standard error.
//!
//! A bar with rate on a terminal; elsewhere a plain line every ten seconds.

use crate::output::{human_bytes, human_count, note};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of one command.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    verb: &'static str,
    started: Instant,
    line_due: Instant,
}

impl Progress {
    /// Begins. `verb` is what is done ("loaded"); `input_bytes` how much there is to read, if known.
    pub(crate) fn new(verb: &'static str, input_bytes: Option<u64>) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let (bar, template) = match input_bytes {
                Some(bytes) => {
                    (ProgressBar::new(bytes), "{wide_bar:.cyan/blue} {percent:>3} %  {msg}  {elapsed} +{eta}")
                }
                None => (ProgressBar::new_spinner(), "{spinner:.cyan} {msg}  {elapsed}"),
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏░"));
            }
            bar
        });
        let started = Instant::now();
        Self { bar, verb, started, line_due: started + LINE_INTERVAL }
    }

    fn rate(&self, rows: u64) -> u64 {
        (rows as f64 / self.started.elapsed().as_secs_f64().max(0.001)) as u64
    }

    /// Shows that `rows` are done and `input_bytes` of the input read.
    pub(crate) fn set(&mut self, rows: u64, input_bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(input_bytes);
            bar.set_message(format!("{} rows, {}/s", human_count(rows), human_count(self.rate(rows))));
        } else if Instant::now() >= self.line_due {
            self.line_due += LINE_INTERVAL;
            note(format_args!(
                "{} {} rows, {}/s",
                self.verb,
                human_count(rows),
                human_count(self.rate(rows))
            ));
        }
    }

    /// Writes a line without breaking the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(line)),
            None => note(line),
        }
    }

    /// Removes the bar and sums up.
    pub(crate) fn finish(self, rows: u64, user_bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        note(format_args!(
            "{} {} rows, {} of keys and values, in {seconds:.1} s: {} rows/s",
            self.verb,
            human_count(rows),
            human_bytes(user_bytes),
            human_count(self.rate(rows)),
        ));
    }
}
