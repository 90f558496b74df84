//! Tells a plain selector (`name{label="x"}`) from any other expression.

/// Whether `expression` is an instant vector selector and nothing else: no function, operator, range, `offset` or `@`.
pub fn is_plain(expression: &str) -> bool {
    let expression = expression.trim();
    let name_end = expression.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let (name, rest) = expression.split_at(name_end.unwrap_or(expression.len()));
    let matchers = rest.trim_start();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    match matchers.strip_prefix('{') {
        Some(matchers) => closing_brace(matchers).is_some_and(|at| at + 1 == matchers.len()),
        None => !name.is_empty() && matchers.is_empty(),
    }
}

/// The place of the first `}` that is in no string (PromQL has `"`, `'` and, without escapes, `` ` ``).
fn closing_brace(matchers: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in matchers.char_indices() {
        match (quote, c) {
            (None, '}') => return Some(at),
            (None, '"' | '\'' | '`') => quote = Some(c),
            (Some(_), _) if escaped => escaped = false,
            (Some('"' | '\''), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_selectors() {
        for plain in [
            "up",
            " queue:depth:sum5m ",
            "up{}",
            "up {job=\"a\"}",
            r#"up{job=~"a}b\"}",x='}'}"#,
            "up{x=`\\`}",
            "{__name__=\"up\"}",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "",
            "5",
            "sum(up)",
            "up + 1",
            "up[5m]",
            "up{a=\"b\"}[5m]",
            "up offset 5m",
            "up{} offset 5m",
            "up @ 0",
            "-up",
            "up{",
            "up{x=\"}\"",
            "{",
            "up{a=\"b\"} > 1",
            "(up)",
            "sum by (x) (up)",
        ] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
