//! The source tree keeps its own rules: files under 400 lines, functions under 60, nothing that only one machine has.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use tidegate_tests::rust_source::functions;
use tidegate_tests::{Result, trials};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;
const SOURCES: [&str; 3] = ["rs", "go", "sh"];
const NOT_OURS: [&str; 2] = ["target", ".git"];
const GENERATED: &str = "proto/src/generated";

pub fn trials() -> Vec<Trial> {
    trials![files_are_short, functions_are_short, no_file_names_a_path_of_one_machine]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a folder of the workspace")
}

/// Every file of the tree but what git and cargo keep for themselves, by its path from the root.
fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            // In a work tree `.git` is a file.
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if entry.file_type()?.is_file() {
                files.push(path.strip_prefix(root())?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The source files that people write, with their text.
fn sources() -> Result<Vec<(PathBuf, String)>> {
    let is_source = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| SOURCES.contains(&extension)) && !path.starts_with(GENERATED)
    };
    files()?
        .into_iter()
        .filter(is_source)
        .map(|path| Ok((path.clone(), std::fs::read_to_string(root().join(path))?)))
        .collect()
}

fn none(faults: &[String]) -> Result {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

async fn files_are_short() -> Result {
    let long = |(path, text): (PathBuf, String)| {
        let lines = text.lines().count();
        (lines >= FILE_LINES).then(|| format!("{} has {lines} lines", path.display()))
    };
    none(&sources()?.into_iter().filter_map(long).collect::<Vec<_>>())
}

async fn functions_are_short() -> Result {
    let mut faults = Vec::new();
    for (path, text) in sources()?.into_iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "rs")) {
        for function in functions(&text).into_iter().filter(|function| function.lines >= FUNCTION_LINES) {
            let place = format!("{}:{}", path.display(), function.line);
            faults.push(format!("{place}: {} has {} lines", function.name, function.lines));
        }
    }
    none(&faults)
}

async fn no_file_names_a_path_of_one_machine() -> Result {
    // In pieces, so that this file passes.
    let forbidden = [["/ro", "ot/"], ["/wo", "rk/"], ["/tmp", "/wt"], [".lib", "rary/"]].map(|pieces| pieces.concat());
    let mut faults = Vec::new();
    for path in files()? {
        let text = std::fs::read(root().join(&path))?;
        let text = String::from_utf8_lossy(&text);
        for (number, line) in (1..).zip(text.lines()) {
            if forbidden.iter().any(|word| line.contains(word)) {
                faults.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    none(&faults)
}
