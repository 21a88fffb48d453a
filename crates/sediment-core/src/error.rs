// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of the whole library: code, message, location (file, line or offset), quoted input, and a hint on
//! what to do.

use std::fmt;

/// Result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Class of an [`Error`]; the program maps each class to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is damaged, empty, or of another format than it should be; or a step failed.
    Failed,
    /// The caller asked for something that makes no sense.
    Usage,
    /// A threshold that the caller set (coverage, staleness) was not reached.
    BelowThreshold,
    /// This machine, or a tool on it, cannot do this.
    Unsupported,
    /// The user asked to stop.
    Interrupted,
}

macro_rules! error_codes {
    ($($kind:ident { $($(#[$doc:meta])* $variant:ident $text:literal,)* })*) => {
        /// Code of an [`Error`], for callers that tell errors apart. [`ErrorCode::text`] is stable from release to release;
        /// messages are not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($($(#[$doc])* #[doc = concat!("\n\nText: `", $text, "`.")] $variant,)*)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$($(Self::$variant),*),*];

            /// Text of the code, for programs and logs.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $($(Self::$variant => $text,)*)*
                }
            }

            /// Class of the errors with this code.
            #[must_use]
            pub fn kind(self) -> ErrorKind {
                match self {
                    $($(Self::$variant)|* => ErrorKind::$kind,)*
                }
            }
        }
    };
}

error_codes! {
    Failed {
        // Inputs
        /// The input breaks the rules of its format; the error has the line or offset, if there is one.
        Damaged "damaged",
        /// The input is empty, or has none of the data for which it is read.
        EmptyInput "empty-input",
        /// No reader knows the format of the input.
        UnknownFormat "unknown-format",
        /// The input is of a known format, in a variant that is not supported; the hint says how to convert it.
        UnsupportedVariant "unsupported-variant",
        /// A newer release wrote the input.
        NewerVersion "newer-version",
        /// The input is larger, or unpacks to more, than is allowed.
        TooLarge "too-large",
        /// Sums of the input exceed the range of their numbers.
        Overflow "overflow",
        /// Inputs that do not belong together.
        IncompatibleInputs "incompatible-inputs",
        /// The input can be read in several ways; the hint says how to choose.
        Ambiguous "ambiguous",
        // Recordings
        /// The input is a profile, a program or a packed file where a recording was expected.
        NotARecording "not-a-recording",
        /// The recording has no samples, or no calls.
        EmptyRecording "empty-recording",
        /// No function is known for any address or frame of the recording.
        Unresolved "unresolved",
        /// The recording has addresses, but does not name their program.
        NeedsBinary "needs-binary",
        // Binaries and profiles
        /// The file is not a linked ELF program or library.
        NotElf "not-elf",
        /// The binary has no symbols of its own functions.
        Stripped "stripped",
        /// The profile or recording belongs to another binary, or to another build of it.
        WrongBinary "wrong-binary",
        /// The profile has no function.
        EmptyProfile "empty-profile",
        /// The profile has nothing of the selected DSO, order or kind.
        NotInProfile "not-in-profile",
        // Effects
        /// The operating system refuses to read, write or wait.
        Io "io",
        /// No such file, process, program, package or name.
        NotFound "not-found",
        /// An argument that cannot be passed on.
        InvalidArgument "invalid-argument",
        /// Another program cannot be started, failed, or left no result.
        ProgramFailed "program-failed",
        /// The operating system refuses to trace a program.
        TracingFailed "tracing-failed",
        /// A link has no order; the message says why.
        NotOrdered "not-ordered",
        /// A link has no order, because no profiled function has a section of its own.
        NoOwnSection "no-own-section",
        /// A measurement or comparison has no value.
        NotMeasured "not-measured",
        /// A defect of sediment, or of the linker that it calls.
        Internal "internal",
    }
    Usage {
        /// The request makes no sense.
        Usage "usage",
    }
    BelowThreshold {
        /// A threshold that the caller set was not reached.
        BelowThreshold "below-threshold",
    }
    Unsupported {
        /// This machine, or a tool on it, cannot do it.
        Unsupported "unsupported",
    }
    Interrupted {
        /// The user asked to stop.
        Interrupted "interrupted",
    }
}

/// Where in an input an [`Error`] arose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorLocation {
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
    code: ErrorCode,
    message: String,
    input: Option<String>,
    location: Option<ErrorLocation>,
    found: Option<String>,
    hint: Option<String>,
}

impl Error {
    /// Makes an error with its code; `message` is a sentence in lower case without a full stop.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            code,
            message: message.into(),
            input: None,
            location: None,
            found: None,
            hint: None,
        }))
    }

    /// Makes an error at a line (from 1) of a text input.
    #[must_use]
    pub fn at_line(line: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Damaged, message).with_location(ErrorLocation::Line(line))
    }

    /// Makes an error at a byte offset of a binary input.
    #[must_use]
    pub fn at_offset(offset: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Damaged, message).with_location(ErrorLocation::Offset(offset))
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: ErrorCode) -> Self {
        self.0.code = code;
        self
    }

    /// Adds its location in the input.
    #[must_use]
    pub fn with_location(mut self, location: ErrorLocation) -> Self {
        self.0.location = Some(location);
        self
    }

    /// Names the input; the first name stays, because the innermost caller knows it best.
    #[must_use]
    pub fn with_input(mut self, name: impl Into<String>) -> Self {
        self.0.input.get_or_insert_with(|| name.into());
        self
    }

    /// Quotes the input that was found instead, cut to a readable length.
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

    /// Adds advice on what the user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Code of the error, for callers that distinguish errors.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Class of the error, which depends on its code.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind()
    }

    /// Advice on what to do, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Location in the input.
    #[must_use]
    pub fn location(&self) -> Option<ErrorLocation> {
        self.0.location
    }
}

impl fmt::Display for Error {
    /// Prints `input:line: message (found "…")`. Names and quotes are not escaped: callers pass the text through
    /// [`crate::escape::terminal`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &*self.0;
        match (&details.input, details.location) {
            (Some(input), Some(ErrorLocation::Line(line))) => write!(f, "{input}:{line}: ")?,
            (Some(input), Some(ErrorLocation::Offset(offset))) => {
                write!(f, "{input}: at offset {offset:#x}: ")?
            }
            (Some(input), None) => write!(f, "{input}: ")?,
            (None, Some(ErrorLocation::Line(line))) => write!(f, "line {line}: ")?,
            (None, Some(ErrorLocation::Offset(offset))) => write!(f, "at offset {offset:#x}: ")?,
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
