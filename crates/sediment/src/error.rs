// SPDX-License-Identifier: MIT OR Apache-2.0
//! One error for the whole library: what is wrong, where (file, line or offset), the offending bit, and a hint on what to do.

use std::fmt;

/// The result of every fallible step of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Class of an [`Error`]; the program maps each to one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is damaged, empty, or of another format than it should be; or a step failed.
    Failed,
    /// The caller asked for something that makes no sense.
    Usage,
    /// A threshold that the caller set (coverage, staleness) was not reached.
    BelowThreshold,
    /// This machine, or a tool on it, cannot do what was asked.
    Unsupported,
    /// The user asked to stop.
    Interrupted,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident $text:literal,)*) => {
        /// Code of an [`Error`], for callers that tell errors apart. [`ErrorCode::text`] is stable from release to release;
        /// messages are not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Text of the code, for programs and logs.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

error_codes! {
    /// A step failed, for a reason without a code of its own.
    Failed "failed",
    /// The input breaks the rules of its format; the error has the line or offset.
    Damaged "damaged",
    /// The input is empty.
    EmptyInput "empty-input",
    /// No reader knows the format of the input.
    UnknownFormat "unknown-format",
    /// A newer release wrote the input.
    NewerVersion "newer-version",
    /// The input is larger, or unpacks to more, than is allowed.
    TooLarge "too-large",
    /// The input is a profile, a program or a packed file where a recording was expected.
    NotARecording "not-a-recording",
    /// The recording has no samples, or no calls.
    EmptyRecording "empty-recording",
    /// The file is not a linked ELF program or library.
    NotElf "not-elf",
    /// The binary has no symbols of its own functions.
    Stripped "stripped",
    /// The profile or recording is of another binary, or of another build of it.
    WrongBinary "wrong-binary",
    /// The profile has no function.
    EmptyProfile "empty-profile",
    /// The profile has no function of the selected DSO.
    NotInProfile "not-in-profile",
    /// The request makes no sense.
    Usage "usage",
    /// A threshold that the caller set was not reached.
    BelowThreshold "below-threshold",
    /// This machine, or a tool on it, cannot do it.
    Unsupported "unsupported",
    /// The user asked to stop.
    Interrupted "interrupted",
}

impl From<ErrorKind> for ErrorCode {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Failed => Self::Failed,
            ErrorKind::Usage => Self::Usage,
            ErrorKind::BelowThreshold => Self::BelowThreshold,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Interrupted => Self::Interrupted,
        }
    }
}

/// Where in an input an [`Error`] arose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// Line of a text file, from 1.
    Line(u64),
    /// Byte offset in a binary file, from 0.
    Offset(u64),
}

/// Error with its code, message, location in an input, and hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    code: ErrorCode,
    message: String,
    input: Option<String>,
    location: Option<Location>,
    found: Option<String>,
    hint: Option<String>,
}

impl Error {
    /// A failure of the given kind; `message` is a sentence without a full stop, in lower case.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            code: kind.into(),
            message: message.into(),
            input: None,
            location: None,
            found: None,
            hint: None,
        }))
    }

    /// A failure of kind [`ErrorKind::Failed`].
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// A failure of kind [`ErrorKind::Failed`] with a code of its own.
    #[must_use]
    pub fn coded(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::failed(message).with_code(code)
    }

    /// A failure at a line (from 1) of a text input.
    #[must_use]
    pub fn at_line(line: u64, message: impl Into<String>) -> Self {
        Self::coded(ErrorCode::Damaged, message).with_location(Location::Line(line))
    }

    /// A failure at a byte offset of a binary input.
    #[must_use]
    pub fn at_offset(offset: u64, message: impl Into<String>) -> Self {
        Self::coded(ErrorCode::Damaged, message).with_location(Location::Offset(offset))
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: ErrorCode) -> Self {
        self.0.code = code;
        self
    }

    /// Adds where in the input it happened.
    #[must_use]
    pub fn with_location(mut self, location: Location) -> Self {
        self.0.location = Some(location);
        self
    }

    /// Names the input; the first name given stays, as the innermost caller knows best.
    #[must_use]
    pub fn with_input(mut self, name: impl Into<String>) -> Self {
        self.0.input.get_or_insert_with(|| name.into());
        self
    }

    /// Quotes what was found instead, cut to a readable length.
    #[must_use]
    pub fn with_found(mut self, found: &[u8]) -> Self {
        const LONGEST_QUOTE: usize = 60;
        let mut text: String = String::from_utf8_lossy(&found[..found.len().min(4 * LONGEST_QUOTE)])
            .chars()
            .take(LONGEST_QUOTE)
            .collect();
        if text.len() < found.len() {
            text.push('…');
        }
        self.0.found = Some(text);
        self
    }

    /// Says what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Code of the error, by which callers tell errors apart.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The sort of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Advice on what to do, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in the input it happened.
    #[must_use]
    pub fn location(&self) -> Option<Location> {
        self.0.location
    }
}

impl From<sediment_process::Error> for Error {
    fn from(error: sediment_process::Error) -> Self {
        let kind = match error.kind() {
            sediment_process::ErrorKind::Unsupported => ErrorKind::Unsupported,
            sediment_process::ErrorKind::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Failed,
        };
        let this = Self::new(kind, error.to_string());
        match error.hint() {
            Some(hint) => this.with_hint(hint),
            None => this,
        }
    }
}

impl fmt::Display for Error {
    /// `input:line: message (found "…")`. Names and quotes are raw: whoever prints passes the text through
    /// [`crate::escape::terminal`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &*self.0;
        match (&details.input, details.location) {
            (Some(input), Some(Location::Line(line))) => write!(f, "{input}:{line}: ")?,
            (Some(input), Some(Location::Offset(offset))) => write!(f, "{input}: at offset {offset:#x}: ")?,
            (Some(input), None) => write!(f, "{input}: ")?,
            (None, Some(Location::Line(line))) => write!(f, "line {line}: ")?,
            (None, Some(Location::Offset(offset))) => write!(f, "at offset {offset:#x}: ")?,
            (None, None) => {}
        }
        write!(f, "{}", details.message)?;
        if let Some(found) = &details.found {
            write!(f, " (found \"{found}\")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
