//! A line on a terminal that names work which takes longer than a second, while it takes. It is on standard error, is erased
//! afterwards, and is never in a pipe or a file.

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time before the line appears, and between two of them.
const PERIOD: Duration = Duration::from_secs(1);
/// Goes back to the beginning of the line and erases it.
const ERASE: &str = "\r\x1b[2K";

/// Work under way; the line is gone with it.
pub(crate) struct Status {
    /// `None` where there is no terminal.
    line: Option<Arc<Mutex<Shown>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shown {
    text: String,
    visible: bool,
    began: Instant,
    to: Box<dyn Write + Send>,
}

impl Status {
    /// Begins work that this text names.
    pub(crate) fn begin(text: impl Into<String>) -> Self {
        if !std::io::stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Self { line: None, stop: None, thread: None };
        }
        Self::on(Box::new(std::io::stderr()), text.into(), PERIOD)
    }

    fn on(to: Box<dyn Write + Send>, text: String, period: Duration) -> Self {
        let line = Arc::new(Mutex::new(Shown { text, visible: false, began: Instant::now(), to }));
        let (stop, stopped) = channel();
        let shown = Arc::clone(&line);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                shown.lock().show();
            }
        });
        Self { line: Some(line), stop: Some(stop), thread: Some(thread) }
    }

    /// The work is now what this text names.
    pub(crate) fn set(&self, text: impl Into<String>) {
        if let Some(line) = &self.line {
            line.lock().text = text.into();
        }
    }

    /// Does something that prints, without the line in its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        let mut line = self.line.as_ref().map(|line| line.lock());
        if let Some(line) = &mut line {
            line.erase();
        }
        print()
    }
}

impl Shown {
    fn show(&mut self) {
        let text = format!("{} ... {} s", self.text, self.began.elapsed().as_secs());
        // A line that is broken by the terminal cannot be erased.
        let width = karpenter_view::terminal_width().map_or(80, usize::from);
        let text: String = text.chars().take(width.saturating_sub(1)).collect();
        self.write(&format!("{ERASE}{text}"));
        self.visible = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.visible) {
            self.write(ERASE);
        }
    }

    fn write(&mut self, text: &str) {
        // Without a terminal any more there is no reader to tell.
        let _written = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        // The thread ends when its channel does.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        if let Some(line) = &self.line {
            line.lock().erase();
        }
    }
}

/// Scenarios print through the line that names them.
#[cfg(feature = "demo")]
impl karpenter_sim::scenario::Output for Status {
    fn print(&self, text: &str) -> anyhow::Result<()> {
        Ok(self.aside(|| karpenter_telemetry::stdout::print(text))?)
    }

    fn status(&self, text: &str) {
        self.set(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes on what is written.
    struct Written(Sender<String>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _sent = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn work_that_takes_is_named_and_the_line_is_erased_for_output_and_in_the_end() {
        let (sender, written) = channel();
        let status = Status::on(Box::new(Written(sender)), "reading".to_owned(), Duration::from_millis(1));
        assert_eq!(written.recv().unwrap(), format!("{ERASE}reading ... 0 s"));
        status.set("planning");
        while !written.recv().unwrap().starts_with(&format!("{ERASE}planning ... ")) {}
        let before_output = status.aside(|| written.try_iter().last());
        assert_eq!(before_output.as_deref(), Some(ERASE));
        while written.recv().unwrap() == ERASE {}
        drop(status);
        assert_eq!(written.try_iter().last().as_deref(), Some(ERASE));
    }

    #[test]
    fn work_that_is_done_at_once_writes_nothing() {
        let (sender, written) = channel();
        drop(Status::on(Box::new(Written(sender)), "reading".to_owned(), Duration::from_hours(1)));
        assert_eq!(written.recv().ok(), None);
    }
}
