//! The terminal's events, and the signals that end the program.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Longest time until the thread that reads notices the end of the loop.
const POLL: Duration = Duration::from_millis(200);

/// Keys and changes of size, read by a thread of their own until the receiver is dropped. Ends when the terminal does.
pub(super) fn events() -> mpsc::UnboundedReceiver<Event> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(POLL).and_then(|there| there.then(event::read).transpose()) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    receiver
}

/// The width of the terminal in characters; none when there is no terminal.
pub fn terminal_width() -> Option<u16> {
    ratatui::crossterm::terminal::size().ok().map(|(width, _)| width)
}

/// Resolves when the process is asked to end. Ctrl-C on the terminal itself is a key.
pub(super) fn stopped() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}
