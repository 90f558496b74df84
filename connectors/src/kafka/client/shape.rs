//! Walks a reply before it is decoded, so that the generated codec never allocates for a length that is not there.
//!
//! The codec reserves room for as many elements as an array claims to have. A reply that passes here has every element
//! that it claims, and no more of them than [`MAX_ELEMENTS`]. What follows its last field is passed over, as the codec
//! does: librdkafka's mock cluster ends its metadata with a byte too many.

/// The most elements of all arrays of one reply. In memory an element has about 250 bytes, so this is 32 MiB at most.
const MAX_ELEMENTS: usize = 131_072;

/// The fields of a reply or of an array's element.
pub(super) type Fields = &'static [Field];

/// One field, and the versions that have it.
pub(super) struct Field {
    since: i16,
    until: i16,
    kind: Kind,
}

enum Kind {
    /// As many bytes as this.
    Fixed(usize),
    /// A string, perhaps null.
    Text,
    /// Bytes behind a 32-bit length, perhaps null.
    Blob,
    /// An array of 32-bit integers.
    Integers,
    /// An array of strings.
    Texts,
    /// An array of structures.
    Array(Fields),
    /// One structure.
    Structure(Fields),
}

/// What a reply looks like: the first version that is flexible (KIP-482), and its fields.
pub(super) struct Shape {
    pub(super) flexible: i16,
    pub(super) fields: Fields,
}

const fn field(kind: Kind) -> Field {
    Field { since: 0, until: i16::MAX, kind }
}

pub(super) const BYTE: Field = field(Kind::Fixed(1));
pub(super) const INT16: Field = field(Kind::Fixed(2));
pub(super) const INT32: Field = field(Kind::Fixed(4));
pub(super) const INT64: Field = field(Kind::Fixed(8));
pub(super) const UUID: Field = field(Kind::Fixed(16));
pub(super) const TEXT: Field = field(Kind::Text);
pub(super) const BLOB: Field = field(Kind::Blob);
pub(super) const INTEGERS: Field = field(Kind::Integers);
pub(super) const TEXTS: Field = field(Kind::Texts);

pub(super) const fn array(of: Fields) -> Field {
    field(Kind::Array(of))
}

pub(super) const fn structure(of: Fields) -> Field {
    field(Kind::Structure(of))
}

impl Field {
    /// The field from version `since` on.
    pub(super) const fn since(self, since: i16) -> Self {
        Self { since, until: self.until, kind: self.kind_of() }
    }

    /// The field up to version `until`.
    pub(super) const fn until(self, until: i16) -> Self {
        Self { since: self.since, until, kind: self.kind_of() }
    }

    const fn kind_of(&self) -> Kind {
        match self.kind {
            Kind::Fixed(size) => Kind::Fixed(size),
            Kind::Text => Kind::Text,
            Kind::Blob => Kind::Blob,
            Kind::Integers => Kind::Integers,
            Kind::Texts => Kind::Texts,
            Kind::Array(of) => Kind::Array(of),
            Kind::Structure(of) => Kind::Structure(of),
        }
    }
}

impl Shape {
    /// Whether `body`, a reply of `version` without its header, has this shape.
    pub(super) fn fits(&self, version: i16, body: &[u8]) -> bool {
        let mut walk = Walk { left: body, version, flexible: version >= self.flexible, elements: MAX_ELEMENTS };
        walk.structure(self.fields).is_some()
    }
}

/// Skips the tagged fields of a flexible reply's header; `None` if they do not fit.
pub(super) fn after_tags(header: &[u8]) -> Option<&[u8]> {
    let mut walk = Walk { left: header, version: 0, flexible: true, elements: MAX_ELEMENTS };
    walk.tags()?;
    Some(walk.left)
}

struct Walk<'a> {
    left: &'a [u8],
    version: i16,
    flexible: bool,
    elements: usize,
}

impl Walk<'_> {
    fn structure(&mut self, fields: Fields) -> Option<()> {
        for field in fields {
            if (field.since..=field.until).contains(&self.version) {
                self.field(&field.kind)?;
            }
        }
        if self.flexible { self.tags() } else { Some(()) }
    }

    fn field(&mut self, kind: &Kind) -> Option<()> {
        match kind {
            Kind::Fixed(size) => self.skip(*size),
            Kind::Text => self.text(),
            Kind::Blob => {
                let length = self.length(4)?;
                self.skip(length)
            }
            Kind::Integers => {
                let count = self.length(4)?;
                self.skip(count.checked_mul(4)?)
            }
            Kind::Texts => self.repeat(Self::text),
            Kind::Array(fields) => self.repeat(|walk| walk.structure(fields)),
            Kind::Structure(fields) => self.structure(fields),
        }
    }

    fn text(&mut self) -> Option<()> {
        let length = self.length(2)?;
        self.skip(length)
    }

    fn repeat(&mut self, element: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.length(4)? {
            self.elements = self.elements.checked_sub(1)?;
            element(self)?;
        }
        Some(())
    }

    /// Tagged fields; our replies have none that the codec knows, so that each is a number, a size and bytes.
    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.elements = self.elements.checked_sub(1)?;
            self.varint()?;
            let size = self.varint()?;
            self.skip(size)?;
        }
        Some(())
    }

    /// A length of `width` bytes, or a compact one; null counts as nothing.
    fn length(&mut self, width: usize) -> Option<usize> {
        if self.flexible {
            return Some(self.varint()?.saturating_sub(1));
        }
        let length = match width {
            2 => i32::from(i16::from_be_bytes(*self.left.first_chunk()?)),
            _ => i32::from_be_bytes(*self.left.first_chunk()?),
        };
        self.skip(width)?;
        if length == -1 { Some(0) } else { usize::try_from(length).ok() }
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let (byte, left) = self.left.split_first()?;
            self.left = left;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok().map(|value| value as usize);
            }
        }
        None
    }

    fn skip(&mut self, size: usize) -> Option<()> {
        self.left = self.left.get(size..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests;
