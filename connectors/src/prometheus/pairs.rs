//! `customHeaders` and `queryParameters`: lists of `key=value`, as KEDA writes maps, but that only the first `=` splits
//! (cases.md B104).

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::metadata::{ParameterError, Parameters};

/// Headers that no trigger sets (safety.md C11): those that frame the message, those that log in, which are the
/// authentication modes' to set, and those by which a server behind a proxy tells tenants apart, which are the
/// platform's.
const FORBIDDEN: &[&str] = &[
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "te",
    "thanos-tenant",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-real-ip",
    "x-scope-orgid",
];
const FORBIDDEN_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

/// The pairs of `key`, in order; none where it is absent.
pub fn read(parameters: Parameters<'_>, key: &'static str) -> Result<Vec<(String, String)>, ParameterError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for item in parameters.list(key) {
        let pair = item.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            return Err(ParameterError::new(key, "must be a list of name=value"));
        };
        if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(ParameterError::new(key, "has a name twice"));
        }
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Adds a header that the parameter `key` asks for. `authenticates` tells whether it may be `Authorization`.
pub fn add_header(
    headers: &mut HeaderMap,
    key: &'static str,
    (name, value): (&str, &str),
    authenticates: bool,
) -> Result<(), ParameterError> {
    let name =
        HeaderName::try_from(name).map_err(|_| ParameterError::new(key, "has a name that no header can have"))?;
    if is_forbidden(name.as_str()) && !(authenticates && name == reqwest::header::AUTHORIZATION) {
        let problem = format!("must not set {name}{}", way_out(name.as_str()));
        return Err(ParameterError::new(key, problem));
    }
    if headers.contains_key(&name) {
        return Err(ParameterError::new(key, format!("sets {name}, which is set already")));
    }
    headers.insert(name, header_value(key, value)?);
    Ok(())
}

/// `text` as a header's value, which is not printed.
pub fn header_value(key: &'static str, text: &str) -> Result<HeaderValue, ParameterError> {
    let mut value = HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| ParameterError::new(key, "holds a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.contains(&name) || FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn way_out(name: &str) -> &'static str {
    match name {
        "authorization" => ": use authModes",
        "x-scope-orgid" | "thanos-tenant" => ": the platform says whose data is read",
        _ => "",
    }
}
