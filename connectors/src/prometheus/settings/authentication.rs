//! `authModes`: what each mode needs and does, as KEDA's documentation has it.
//!
//! | mode | sends |
//! |---|---|
//! | `bearer` | `Authorization: Bearer <bearerToken>` |
//! | `basic` | `Authorization: Basic` of `username` and `password`, which may be empty |
//! | `oauth` | `Authorization: Bearer` with a token by the client credentials grant |
//! | `tls` | the client certificate `cert` with `key` |
//! | `custom` | the header `customAuthHeader` with `customAuthValue` |
//! | `apiKey` | `apiKey` in a header or, with `method: query`, in a parameter named `keyParamName` |
//!
//! Several are applied at once, but of the first three at most one.

use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use super::{super::pairs, demand};
use crate::{
    http,
    metadata::{ParameterError, Parameters},
    oauth::Grant,
};

/// What goes into `Authorization`.
pub enum Scheme {
    /// Nothing.
    None,
    /// A bearer token that is given.
    Bearer(SecretString),
    /// A user name and a password.
    Basic(Login),
    /// A bearer token that is fetched.
    OAuth(Grant),
}

/// A user name and a password.
pub struct Login {
    /// Not secret, but not printed either.
    pub username: SecretString,
    /// The password; it may be empty.
    pub password: SecretString,
}

/// The modes that a trigger names.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Modes {
    authorization: Option<Authorization>,
    /// Whether the client shows a certificate.
    pub tls: bool,
    custom: bool,
    api_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Authorization {
    Bearer,
    Basic,
    OAuth,
}

impl Modes {
    /// Reads `authModes`, or its other name `authMode`.
    pub fn read(parameters: Parameters<'_>) -> Result<Self, ParameterError> {
        let key = either(parameters, ["authModes", "authMode"]);
        let mut modes = Self::default();
        for mode in parameters.list(key) {
            let authorization = match mode {
                "tls" | "custom" | "apiKey" => None,
                "bearer" => Some(Authorization::Bearer),
                "basic" => Some(Authorization::Basic),
                "oauth" => Some(Authorization::OAuth),
                _ => {
                    return Err(ParameterError::new(
                        key,
                        "must be a list of apiKey, basic, bearer, custom, oauth, tls",
                    ));
                }
            };
            modes.tls |= mode == "tls";
            modes.custom |= mode == "custom";
            modes.api_key |= mode == "apiKey";
            if authorization.is_some_and(|new| modes.authorization.is_some_and(|old| old != new)) {
                return Err(ParameterError::new(key, "must name at most one of basic, bearer and oauth"));
            }
            modes.authorization = modes.authorization.or(authorization);
        }
        Ok(modes)
    }

    /// The word for it all in an error.
    pub fn mechanism(self) -> &'static str {
        match self {
            Self { authorization: Some(Authorization::Bearer), .. } => "bearer",
            Self { authorization: Some(Authorization::Basic), .. } => "basic",
            Self { authorization: Some(Authorization::OAuth), .. } => "oauth",
            Self { custom: true, .. } => "custom",
            Self { api_key: true, .. } => "apiKey",
            Self { tls: true, .. } => "tls",
            _ => "no authModes",
        }
    }

    /// What goes into `Authorization`; `None` if a part of it is still to be read.
    pub fn scheme(self, parameters: Parameters<'_>) -> Result<Option<Scheme>, ParameterError> {
        match self.authorization {
            None => Ok(Some(Scheme::None)),
            Some(Authorization::Bearer) => {
                let key = either(parameters, ["bearerToken", "token"]);
                let token = demand(parameters, key, parameters.secret(key)?)?;
                if let Some(token) = &token {
                    pairs::header_value(key, token.expose_secret())?;
                }
                Ok(token.map(Scheme::Bearer))
            }
            Some(Authorization::Basic) => {
                let username = demand(parameters, "username", parameters.secret("username")?)?;
                let password = parameters.secret("password")?.unwrap_or_default();
                Ok(username.map(|username| Scheme::Basic(Login { username, password })))
            }
            Some(Authorization::OAuth) => Ok(grant(parameters)?.map(Scheme::OAuth)),
        }
    }

    /// Adds what `custom` and `apiKey` send.
    pub fn add_to(
        self,
        parameters: Parameters<'_>,
        headers: &mut HeaderMap,
        request: &mut Vec<(String, SecretString)>,
    ) -> Result<(), ParameterError> {
        let free = self.authorization.is_none();
        if self.custom {
            const NAME: &str = "customAuthHeader";
            let name = demand(parameters, NAME, parameters.text(NAME))?;
            let value = demand(parameters, "customAuthValue", parameters.secret("customAuthValue")?)?;
            if let (Some(name), Some(value)) = (name, value) {
                pairs::add_header(headers, NAME, (name, value.expose_secret()), free)?;
            }
        }
        if self.api_key {
            let in_query = parameters.choice("method", &[("header", false), ("query", true)], false)?;
            let key = demand(parameters, "apiKey", parameters.secret("apiKey")?)?;
            // The defaults are those of KEDA's metrics-api trigger, where these modes come from.
            let name = parameters.text("keyParamName").unwrap_or(if in_query { "api_key" } else { "X-API-KEY" });
            match key {
                Some(key) if in_query => add_parameter(request, name, key)?,
                Some(key) => pairs::add_header(headers, "keyParamName", (name, key.expose_secret()), free)?,
                None => {}
            }
        }
        Ok(())
    }
}

fn add_parameter(
    request: &mut Vec<(String, SecretString)>,
    name: &str,
    key: SecretString,
) -> Result<(), ParameterError> {
    let taken = request.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if taken || super::OWN_PARAMETERS.contains(&name) || name == "namespace" {
        return Err(ParameterError::new("keyParamName", "names a parameter that the request has already"));
    }
    request.push((name.to_owned(), key));
    Ok(())
}

fn grant(parameters: Parameters<'_>) -> Result<Option<Grant>, ParameterError> {
    const ENDPOINT: &str = "oauthTokenURI";
    let endpoint = demand(parameters, ENDPOINT, parameters.endpoint(ENDPOINT)?)?;
    let endpoint = endpoint.map(|text| http::url(ENDPOINT, text)).transpose()?;
    let client_id = demand(parameters, "clientID", parameters.secret("clientID")?)?;
    let client_secret = parameters.secret("clientSecret")?.unwrap_or_default();
    let scopes = parameters.list(either(parameters, ["scopes", "scope"]));
    let scopes = scopes.into_iter().filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    let extra = endpoint_parameters(parameters)?;
    Ok(endpoint.zip(client_id).map(|(endpoint, client_id)| Grant {
        endpoint,
        client_id,
        client_secret,
        scopes,
        parameters: extra,
        mechanism: "oauth",
    }))
}

/// `endpointParams`, written as a URL's query is: `a=1&b=2&a=3`.
fn endpoint_parameters(parameters: Parameters<'_>) -> Result<Vec<(String, String)>, ParameterError> {
    const KEY: &str = "endpointParams";
    let Some(text) = parameters.text(KEY) else { return Ok(Vec::new()) };
    let hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let escaped = |at: usize| hex(bytes.get(at + 1)) && hex(bytes.get(at + 2));
    if !text.match_indices('%').all(|(at, _)| escaped(at)) {
        return Err(ParameterError::new(KEY, "must be written as a URL's query is: a=1&b=2"));
    }
    let mut url = http::Url::parse("http://parameters").expect("it is a URL");
    url.set_query(Some(text));
    let pairs = url.query_pairs().filter(|(name, _)| !name.is_empty());
    Ok(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

/// The first of two names of one parameter that is there.
fn either(parameters: Parameters<'_>, names: [&'static str; 2]) -> &'static str {
    if parameters.text(names[0]).is_none() && parameters.text(names[1]).is_some() { names[1] } else { names[0] }
}
