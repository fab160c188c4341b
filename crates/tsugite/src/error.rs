//! The error of serving, which a `main` can also return for a client.

use std::fmt;

/// The result of serving.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that prevented a server from starting or ended it.
#[doc(alias = "McpError")]
pub struct Error(Box<ErrorRepr>);

#[derive(Debug)]
pub(crate) enum ErrorRepr {
    /// Invalid registrations; each sentence describes one.
    Registration(Vec<String>),
    /// The transport failed.
    Io(std::io::Error),
    /// Another error, displayed unchanged.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// Displays an error with its causes, for logs.
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
    pub(crate) fn registration(problems: Vec<String>) -> Self {
        Self(Box::new(ErrorRepr::Registration(problems)))
    }

    #[allow(dead_code, reason = "used only by the client")]
    pub(crate) fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(ErrorRepr::Other(Box::new(error))))
    }

    /// Whether a registration is invalid. The message describes it.
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

/// The same as `Display`, because a `main` that returns the error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ErrorRepr::Registration(problems) => f.write_str(&problems.join("; ")),
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
