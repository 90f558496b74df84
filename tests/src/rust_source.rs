//! Reads as much of Rust's syntax as is needed to find functions and their lengths.

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines from its `fn` to its closing brace.
    pub lines: usize,
}

/// The functions with a body in a file, nested ones too, in the order of their `fn`.
pub fn functions(source: &str) -> Vec<Function> {
    let code = without_text(source);
    let mut functions = Vec::new();
    let mut at = 0;
    while let Some(found) = find_word(&code[at..], "fn") {
        at += found + 2;
        // `fn` without a name is a type.
        let name: String = code[at..].iter().skip_while(|c| c.is_whitespace()).take_while(|c| is_word(**c)).collect();
        if name.is_empty() {
            continue;
        }
        if let Some(end) = end_of_body(&code[at..]) {
            let line = 1 + newlines(&code[..at]);
            functions.push(Function { name, line, lines: 1 + newlines(&code[at..at + end]) });
        }
    }
    functions
}

fn newlines(code: &[char]) -> usize {
    code.iter().filter(|&&c| c == '\n').count()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn find_word(code: &[char], word: &str) -> Option<usize> {
    let word: Vec<char> = word.chars().collect();
    let is_at = |start: usize| {
        let before = start.checked_sub(1).is_some_and(|before| is_word(code[before]));
        let after = code.get(start + word.len()).is_some_and(|&c| is_word(c));
        !before && !after
    };
    code.windows(word.len()).enumerate().find(|&(start, window)| window == word && is_at(start)).map(|(start, _)| start)
}

/// Where the first `{}` block outside parentheses and brackets ends; `None` if a `;` comes first.
fn end_of_body(code: &[char]) -> Option<usize> {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (index, c) in code.iter().enumerate() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return Some(index),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// The source with the content of comments, strings and character literals blanked; newlines stay.
fn without_text(source: &str) -> Vec<char> {
    let mut code: Vec<char> = source.chars().collect();
    let mut at = 0;
    while at < code.len() {
        let length = text_length(&code, at);
        for c in &mut code[at..at + length] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        at += length.max(1);
    }
    code
}

/// The length of the comment, string or character literal that begins at `at`; 0 if none does.
fn text_length(code: &[char], at: usize) -> usize {
    let rest = &code[at..];
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => 1 + quoted_length(&rest[1..], '"'),
        ['r', '"' | '#', ..] if !follows_word(code, at) => raw_string_length(rest),
        ['\'', '\\', ..] => 1 + quoted_length(&rest[1..], '\''),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// Whether `at` is inside a longer word. The `b` of `br""` and the `c` of `cr""` are prefixes, not words.
fn follows_word(code: &[char], at: usize) -> bool {
    let word = code[..at].iter().rev().take_while(|&&c| is_word(c)).count();
    word > 1 || (word == 1 && !matches!(code[at - 1], 'b' | 'c'))
}

fn block_comment_length(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < rest.len() {
        match rest[at..at + 2] {
            ['/', '*'] => depth += 1,
            ['*', '/'] => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length up to and with the closing quote, after the opening one.
fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// 0 for a raw identifier such as `r#type`.
fn raw_string_length(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    let start = 1 + hashes;
    if rest.get(start) != Some(&'"') {
        return 0;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = &rest[start + 1..];
    let end = body.windows(closing.len()).position(|window| window == closing);
    end.map_or(rest.len(), |end| start + 1 + end + closing.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(&str, usize, usize)]) {
        let found = functions(source);
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn functions_are_measured_from_fn_to_closing_brace() {
        check("fn a() {}", &[("a", 1, 1)]);
        check("\npub async fn a(\n    x: u8,\n) -> u8 {\n    x\n}\nfn b() {\n}\n", &[("a", 2, 5), ("b", 7, 2)]);
        check("fn a() {\n    fn b() {\n    }\n}", &[("a", 1, 4), ("b", 2, 2)]);
        check("trait T { fn a(x: [u8; 3]);\n fn b() { loop {} } }", &[("b", 2, 1)]);
        check("type F = fn(u8) -> u8; struct S { f: fn() }", &[]);
    }

    #[test]
    fn braces_and_words_in_text_do_not_count() {
        check("fn a() {\n// }\n}", &[("a", 1, 3)]);
        check("fn a() {\n/* } /* } */ } */\n}", &[("a", 1, 3)]);
        check("fn a() {\n\"}\\\"}\";\n}", &[("a", 1, 3)]);
        check("fn a() {\nr#\"}\"}\"#; br\"}\\\";\n}", &[("a", 1, 3)]);
        check("fn a<'x>(y: &'x str) {\n'}'; '\\''; b'}'; '\"';\n}", &[("a", 1, 3)]);
        check("fn r#type() {}\n// fn no() {}\nlet s = \"fn no() {}\";", &[("r", 1, 1)]);
    }
}
