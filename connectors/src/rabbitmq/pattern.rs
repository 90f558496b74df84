//! `useRegex`: which queues a pattern means.
//!
//! The pattern is evaluated here and not by the broker, so that one listing serves all patterns and no tenant's pattern
//! costs a broker more than linear time. As in the management API it is found anywhere in a name and ignores case. What
//! Perl's syntax has more than Rust's `regex` (look-around, back references) is refused by name.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use regex::{Regex, RegexBuilder};

/// The longest pattern, in bytes (safety.md E10).
const MAX_LENGTH: usize = 256;
/// What a compiled pattern may take, in bytes.
const SIZE_LIMIT: usize = 256 * 1024;
/// What matching may keep, in bytes.
const CACHE_LIMIT: usize = 256 * 1024;

/// A pattern of queue names.
#[derive(Clone)]
pub struct Pattern(Arc<Regex>);

impl Pattern {
    /// Reads a pattern; the error says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_LENGTH {
            return Err("is a pattern of more than 256 bytes");
        }
        let regex =
            RegexBuilder::new(text).case_insensitive(true).size_limit(SIZE_LIMIT).dfa_size_limit(CACHE_LIMIT).build();
        regex.map(|regex| Self(Arc::new(regex))).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "is a pattern that takes too much memory",
            _ => "is not a regular expression without look-around and back references",
        })
    }

    /// Whether it is found in `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    fn text(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}
