//! Logs: one JSON object per line as the reference writes them, or text for people.
//!
//! Levels mean: `error` a human must act, `warn` unexpected but recovered, `info` state changed, `debug` why.
//! Settings come in typed; reading flags and environment is the binary's business (spec disruption 5.3).

mod json;
mod sampling;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The least severe messages that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl FromStr for Level {
    type Err = LoggingError;

    /// The empty text means `info`, as in the reference.
    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "" | "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "warn" => Ok(Self::Warn),
            "error" => Ok(Self::Error),
            _ => Err(LoggingError::Level(text.to_owned())),
        }
    }
}

impl Level {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Debug => LevelFilter::DEBUG,
            Self::Info => LevelFilter::INFO,
            Self::Warn => LevelFilter::WARN,
            Self::Error => LevelFilter::ERROR,
        }
    }
}

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For log collectors.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Destination of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// Appended to.
    File(PathBuf),
}

impl From<&str> for Output {
    fn from(path: &str) -> Self {
        match path {
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            file => Self::File(file.into()),
        }
    }
}

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct Settings {
    pub level: Level,
    pub format: Format,
    /// Every line is written to each of them.
    pub outputs: Vec<Output>,
    /// Outputs for the report that a line could not be written.
    pub error_outputs: Vec<Output>,
    /// Seven hex digits of the commit the binary was built from; empty leaves the field out.
    pub commit: &'static str,
}

impl Default for Settings {
    /// `info` as text to standard error: what a command wants, whose standard output is data.
    fn default() -> Self {
        Self {
            level: Level::Info,
            format: Format::Text,
            outputs: vec![Output::Stderr],
            error_outputs: vec![],
            commit: "",
        }
    }
}

/// Reason why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("log level `{0}` is unknown; use debug, info, warn or error")]
    Level(String),
    #[error("cannot open log file `{path}`; check that the directory exists and is writable", path = path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("logging is already set up in this process")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for the process.
pub fn init(settings: &Settings) -> Result<(), LoggingError> {
    let lines = Lines::open(&settings.outputs)?.with_errors(Lines::open(&settings.error_outputs)?);
    let layer = match settings.format {
        Format::Json => json::Json::new(lines, settings.commit, settings.level == Level::Debug).boxed(),
        Format::Text => {
            tracing_subscriber::fmt::layer().with_target(false).with_ansi(false).with_writer(lines).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter(settings.level)))
        .try_init()
        .map_err(LoggingError::Twice)
}

/// Our own messages at `level`; libraries only when they warn.
fn filter(level: Level) -> Targets {
    let libraries = level.filter().min(LevelFilter::WARN);
    Targets::new().with_default(libraries).with_target("karpenter", level.filter())
}

/// The opened outputs; a line is written to each of them in one call.
#[derive(Clone)]
struct Lines {
    outputs: Arc<Vec<Mutex<Box<dyn Write + Send>>>>,
    /// Notified when an output fails.
    errors: Option<Box<Lines>>,
}

impl Lines {
    fn open(outputs: &[Output]) -> Result<Self, LoggingError> {
        let open = |output: &Output| -> Result<Mutex<Box<dyn Write + Send>>, LoggingError> {
            Ok(Mutex::new(match output {
                Output::Stdout => Box::new(io::stdout()),
                Output::Stderr => Box::new(io::stderr()),
                Output::File(path) => Box::new(
                    File::options()
                        .create(true)
                        .append(true)
                        .open(path)
                        .map_err(|source| LoggingError::Open { path: path.clone(), source })?,
                ),
            }))
        };
        let outputs = outputs.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { outputs: Arc::new(outputs), errors: None })
    }

    fn with_errors(self, errors: Self) -> Self {
        Self { errors: Some(Box::new(errors)), ..self }
    }
}

/// Log kept in memory: for tests of what people read.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog(Arc<Mutex<Vec<u8>>>);

impl MemoryLog {
    /// Keeps what this thread logs at `level` until the guard is dropped.
    pub fn of_this_thread(level: Level) -> (Self, tracing::subscriber::DefaultGuard) {
        // While there is but one subscriber, a message that another thread meets first is switched off for all.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF)));
        let log = Self::default();
        let outputs: Vec<Mutex<Box<dyn Write + Send>>> = vec![Mutex::new(Box::new(log.clone()))];
        let lines = Lines { outputs: Arc::new(outputs), errors: None };
        let text = tracing_subscriber::fmt::layer().without_time().with_target(false).with_ansi(false);
        let subscriber =
            tracing_subscriber::registry().with(text.with_writer(lines).with_filter(filter(level)));
        (log, subscriber.set_default())
    }

    /// The lines so far that contain `text`.
    pub fn lines(&self, text: &str) -> Vec<String> {
        let logged = self.0.lock();
        let logged = String::from_utf8_lossy(&logged);
        logged.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl Write for MemoryLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut failure = None;
        for output in self.outputs.iter() {
            let written = output.lock().write_all(line);
            failure = failure.or(written.err());
        }
        if let (Some(error), Some(errors)) = (failure, &mut self.errors) {
            // An error log that cannot be written cannot be reported anywhere else.
            let _unwritten = writeln!(errors, "cannot write log: {error}");
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        for output in self.outputs.iter() {
            output.lock().flush()?;
        }
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::{Level, Lines, Output, filter};

    #[derive(Clone, Default)]
    pub(super) struct Captured(pub(super) Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _line: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space left"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(super) fn lines(output: impl Write + Send + 'static) -> Lines {
        Lines { outputs: Arc::new(vec![Mutex::new(Box::new(output))]), errors: None }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told_to_the_error_outputs_and_the_others_go_on() {
        let (errors, written) = (Captured::default(), Captured::default());
        let both: Vec<Mutex<Box<dyn Write + Send>>> =
            vec![Mutex::new(Box::new(Full)), Mutex::new(Box::new(written.clone()))];
        let mut log = Lines { outputs: Arc::new(both), errors: None }.with_errors(lines(errors.clone()));
        log.write_all(b"line\n").unwrap();
        assert_eq!(*written.0.lock(), b"line\n");
        assert_eq!(*errors.0.lock(), b"cannot write log: no space left\n");
    }

    #[test]
    fn levels_are_those_of_the_reference_and_warn() {
        for (text, want) in
            [("", Level::Info), ("debug", Level::Debug), ("info", Level::Info), ("error", Level::Error)]
        {
            assert_eq!(text.parse::<Level>().unwrap(), want);
        }
        assert_eq!(
            "loud".parse::<Level>().unwrap_err().to_string(),
            "log level `loud` is unknown; use debug, info, warn or error"
        );
    }

    #[test]
    fn outputs_are_standard_streams_or_files() {
        assert_eq!(Output::from("stdout"), Output::Stdout);
        assert_eq!(Output::from("/var/log/karpenter.log"), Output::File("/var/log/karpenter.log".into()));
    }

    #[test]
    fn libraries_are_quiet_unless_they_warn() {
        let targets = filter(Level::Debug);
        assert!(targets.would_enable("karpenter_controllers::provisioner", &tracing::Level::DEBUG));
        assert!(!targets.would_enable("kube_client::client", &tracing::Level::INFO));
        assert!(targets.would_enable("kube_client::client", &tracing::Level::WARN));
        assert!(!filter(Level::Error).would_enable("kube_client::client", &tracing::Level::WARN));
    }
}
