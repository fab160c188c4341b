//! What can go wrong with a server as a whole, and what else a `main` may end with.

use std::fmt;

/// The result of serving.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a server could not be served, or ended.
pub struct Error(Box<ErrorRepr>);

#[derive(Debug)]
pub(crate) enum ErrorRepr {
    /// Something was registered that cannot be offered; each sentence names one.
    Registration(Vec<String>),
    /// The transport failed.
    Io(std::io::Error),
    /// Somebody else's failure, told as it is.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// An error and what caused it, for logs.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error {
    pub(crate) fn registration(mistakes: Vec<String>) -> Self {
        Self(Box::new(ErrorRepr::Registration(mistakes)))
    }

    #[allow(dead_code, reason = "only a client has other failures")]
    pub(crate) fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(ErrorRepr::Other(Box::new(error))))
    }

    /// Whether something was registered that cannot be offered. The text names it.
    pub fn is_registration(&self) -> bool {
        matches!(*self.0, ErrorRepr::Registration(_))
    }

    /// Whether the transport failed.
    pub fn is_io(&self) -> bool {
        matches!(*self.0, ErrorRepr::Io(_))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(Box::new(ErrorRepr::Io(error)))
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        std::io::Error::from(error).into()
    }
}

/// In words: this is what a `main` that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ErrorRepr::Registration(mistakes) => f.write_str(&mistakes.join("; ")),
            ErrorRepr::Io(error) => write!(f, "the transport failed: {error}"),
            ErrorRepr::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            ErrorRepr::Registration(_) => None,
            ErrorRepr::Io(error) => Some(error),
            ErrorRepr::Other(error) => error.source(),
        }
    }
}
