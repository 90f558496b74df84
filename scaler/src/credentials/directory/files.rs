//! Reads one credential from its own directory. Blocking.
//!
//! Invariants:
//! - The directory is reached from the root without following any link, so that a link from one tenant's place to
//!   another's leads nowhere; a file is reached from that directory, and by links that stay beneath it only.
//! - Nothing but regular files is read, no more than [`MAX_KEYS`] of at most [`MAX_BYTES`] each, and opening never waits.
//! - A credential is read whole or not at all.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2},
    io::Errno,
};
use secrecy::zeroize::Zeroize;
use tidegate_connectors::credentials::Credentials;

/// The longest value that a key may have.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

/// The keys of one credential.
pub(super) const MAX_KEYS: usize = 64;

/// The entries of a directory that are looked at, keys and others: kubelet adds two or three of its own.
const MAX_ENTRIES: usize = 256;

/// How often a read starts over because the files were swapped under it.
const ATTEMPTS: usize = 4;

/// Where kubelet keeps the current content of a volume: a link that it replaces in one step.
const KUBELET_CONTENT: &str = "..data";

/// Why there is no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// There is no such directory.
    NotFound,
    /// There is, but it cannot be used. The text is safe for the tenant.
    Unusable(&'static str),
}

const SWAPPED: Problem = Problem::Unusable("a key links to a file that is not there");

/// Makes sure that credentials can be read from `root`, or says what the operator must mend.
pub(super) fn check(root: &Path) -> io::Result<()> {
    let root = open_root(root)?;
    match openat2(&root, ".", directory_flags(), Mode::empty(), beneath()) {
        // Container runtimes from before Linux 5.6 answer EPERM to a call they do not know.
        Err(Errno::NOSYS | Errno::PERM) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the system call openat2 is not available (it needs Linux 5.6, and a container runtime that allows it); \
             credentials cannot be read safely without it",
        )),
        answer => answer.map(drop).map_err(io::Error::from),
    }
}

fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, root, directory_flags(), Mode::empty())
}

/// Reads the credential at `path`, which the caller built from checked names.
pub(super) fn read(root: &Path, path: &Path) -> Result<Credentials, Problem> {
    let root = open_root(root).map_err(|_| Problem::Unusable("the directory of all credentials cannot be opened"))?;
    let flags = ResolveFlags::NO_SYMLINKS | beneath();
    let own = openat2(&root, path, directory_flags(), Mode::empty(), flags).map_err(|error| match error {
        Errno::NOENT => Problem::NotFound,
        Errno::LOOP | Errno::XDEV => Problem::Unusable("its directory is a link"),
        Errno::NOTDIR => Problem::Unusable("it is not a directory"),
        error => other(error),
    })?;
    let mut content = read_directory(&own);
    for _ in 1..ATTEMPTS {
        if !matches!(content, Err(SWAPPED)) {
            break;
        }
        content = read_directory(&own);
    }
    content.map(Credentials::new)
}

/// Reads what kubelet published last, where it is kubelet's directory: all of one version, none of another.
fn read_directory(own: &OwnedFd) -> Result<Vec<(String, String)>, Problem> {
    let Some(published) = open_published(own)? else { return read_keys(own) };
    let content = read_keys(&published)?;
    // Kubelet swaps the link, then removes the old version: with the link unchanged, nothing was missing.
    match open_published(own)? {
        Some(now) if identity(&now)? == identity(&published)? => Ok(content),
        _ => Err(SWAPPED),
    }
}

fn open_published(own: &OwnedFd) -> Result<Option<OwnedFd>, Problem> {
    match openat2(own, KUBELET_CONTENT, directory_flags(), Mode::empty(), beneath()) {
        Ok(published) => Ok(Some(published)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::AGAIN) => Err(SWAPPED),
        Err(Errno::LOOP | Errno::XDEV) => Err(Problem::Unusable("..data links out of its own directory")),
        Err(error) => Err(other(error)),
    }
}

fn identity(file: impl AsFd) -> Result<(u64, u64), Problem> {
    fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(other)
}

fn read_keys(directory: &OwnedFd) -> Result<Vec<(String, String)>, Problem> {
    let mut content = Vec::new();
    let entries = Dir::read_from(directory).map_err(other)?;
    for (count, entry) in entries.enumerate() {
        let entry = entry.map_err(other)?;
        if count >= MAX_ENTRIES {
            return Err(Problem::Unusable("its directory has too many entries"));
        }
        let Some(key) = entry.file_name().to_str().ok().filter(|name| is_key(name)) else { continue };
        if content.len() == MAX_KEYS {
            return Err(Problem::Unusable("it has more than 64 keys"));
        }
        content.push((key.to_owned(), read_key(directory, key)?));
    }
    Ok(content)
}

/// Whether `name` may be a key of a Secret: 1 to 253 of `[-._a-zA-Z0-9]`, not `.`, and no `..` at the start.
fn is_key(name: &str) -> bool {
    (1..=253).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        && name != "."
        && !name.starts_with("..")
}

fn read_key(directory: &OwnedFd, key: &str) -> Result<String, Problem> {
    const NOT_REGULAR: Problem = Problem::Unusable("a key is not a regular file");
    // NONBLOCK: a FIFO without a writer is opened at once, and then refused for what it is.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(directory, key, flags, Mode::empty(), beneath()).map_err(|error| match error {
        Errno::NOENT | Errno::AGAIN => SWAPPED,
        Errno::LOOP | Errno::XDEV => Problem::Unusable("a key links out of its own directory"),
        Errno::NXIO => NOT_REGULAR, // a socket
        error => other(error),
    })?;
    let stat = fstat(file.as_fd()).map_err(other)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(NOT_REGULAR);
    }
    read_text(File::from(file))
}

fn read_text(file: File) -> Result<String, Problem> {
    const READ_AT_MOST: u64 = MAX_BYTES + 1;
    // All of it at once, so that growing leaves no copy of a secret behind.
    let mut bytes = Vec::with_capacity(usize::try_from(READ_AT_MOST).expect("65,537 fits"));
    let read = file.take(READ_AT_MOST).read_to_end(&mut bytes);
    let text = match read {
        Err(_) => Err(Problem::Unusable("a key cannot be read")),
        Ok(_) if bytes.len() as u64 > MAX_BYTES => Err(Problem::Unusable("a key is longer than 64 KiB")),
        Ok(_) => {
            std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| Problem::Unusable("a key is not UTF-8 text"))
        }
    };
    bytes.zeroize();
    text
}

fn other(error: Errno) -> Problem {
    Problem::Unusable(match error {
        Errno::ACCESS | Errno::PERM => "no permission to read it",
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => "the service is out of file descriptors or memory",
        _ => "it cannot be read",
    })
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS
}
