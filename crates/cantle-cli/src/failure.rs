//! Why a command ends early, and with which exit code.

use std::io;

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output went away, which is no failure of the command.
    ClosedPipe,
    /// A key that was asked for is absent.
    Absent(String),
    /// Bytes on disk differ from those that were written.
    Damage(String),
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// Anything else.
    Failed(String),
    /// A signal of this number ended the command; rows before it are in the store.
    Interrupted(String, u8),
    /// The command has printed its messages already; this is the exit code.
    Reported(u8),
}

impl Failure {
    /// The message for standard error.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::ClosedPipe | Self::Reported(_) => None,
            Self::Absent(message)
            | Self::Damage(message)
            | Self::Usage(message)
            | Self::Failed(message)
            | Self::Interrupted(message, _) => Some(message),
        }
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Absent(_) | Self::Damage(_) => 1,
            Self::Usage(_) => 2,
            Self::Failed(_) => 3,
            // As shells count it.
            Self::Interrupted(_, signal) => 128 + signal,
            Self::Reported(exit_code) => *exit_code,
        }
    }
}

/// In words of the command: the library's own are about options that its user has no name for.
impl From<cantle::Error> for Failure {
    fn from(error: cantle::Error) -> Self {
        let message = error.to_string();
        match error {
            cantle::Error::Corruption { .. } => Self::Damage(message),
            cantle::Error::InvalidArgument(what) => Self::Usage(flags(&what)),
            cantle::Error::NotFound { path, .. } => Self::Failed(format!(
                "there is no store at {}: check the path (`cantle load` and `cantle put` make a store)",
                path.display()
            )),
            cantle::Error::AlreadyExists { path, .. } => Self::Failed(format!(
                "a store exists already at {}: give a path where there is nothing",
                path.display()
            )),
            cantle::Error::Locked { path, pid, .. } => {
                let program = match pid {
                    Some(pid) if pid == std::process::id() => "this process".into(),
                    Some(pid) => format!("process {pid}"),
                    None => "another process".to_owned(),
                };
                Self::Failed(format!(
                    "{} is in use by {program}: close it there first. While a program has a store open with the option \
                     `monitor`, `cantle stats`, `inspect`, `top` and `backup` work, and no other command",
                    path.display()
                ))
            }
            cantle::Error::NoKeyspace(name) => Self::Failed(format!(
                "there is no keyspace {name:?}: `cantle keyspaces DB` lists those that there are"
            )),
            cantle::Error::OptionMismatch { keyspace, option: "layout", stored, given, .. } => {
                Self::Usage(format!(
                    "keyspace {keyspace:?} has the layout {stored}, not {given}: leave --layout out, or write to \
                     another keyspace with --keyspace"
                ))
            }
            cantle::Error::OptionMismatch { keyspace, option: "comparator", stored, .. } => {
                Self::Failed(format!(
                    "keyspace {keyspace:?} is in the order {stored:?}, which only the program that made it knows: use \
                     that, or another keyspace with --keyspace"
                ))
            }
            _ => Self::Failed(message),
        }
    }
}

/// The library's options by the flags that set them.
fn flags(what: &str) -> String {
    const FLAGS: [(&str, &str); 7] = [
        ("memory budget", "--memory"),
        ("memory_budget", "--memory"),
        ("a space amplification", "a --space-amplification"),
        ("space amplification", "--space-amplification"),
        ("space_amplification", "--space-amplification"),
        ("keep_left_behind", "--keep-left-behind"),
        ("skip_damaged", "--skip-damaged"),
    ];
    // The first that matches: no flag is written for a word of another flag.
    match FLAGS.iter().find(|(option, _)| what.contains(option)) {
        Some((option, flag)) => what.replace(option, flag),
        None => what.to_owned(),
    }
}

/// Errors of standard output; those of inputs are given their file's name where they arise.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { io::Error::from(error).into() } else { Self::Failed(error.to_string()) }
    }
}
