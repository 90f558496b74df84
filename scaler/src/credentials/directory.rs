//! Credentials in a directory: `<root>/<namespace>/<name>/<key>`, or `<root>/<cluster>/<namespace>/<name>/<key>`.

/// A directory of credentials.
#[derive(Debug)]
pub struct Directory {}
