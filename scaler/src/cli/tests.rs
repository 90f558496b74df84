//! Rows of command lines.

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, String> {
    Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
}

fn serve(line: &str) -> Serve {
    let Command::Serve(flags) = parse(line).unwrap().command else { panic!("another command") };
    flags
}

fn check(line: &str) -> Check {
    let Command::Check(flags) = parse(line).unwrap().command else { panic!("another command") };
    flags
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn serve_needs_no_flags() {
    assert_eq!(serve("tidegate serve").config().unwrap(), Config::default());
}

#[test]
fn serve_takes_its_flags() {
    let line = "tidegate serve --grpc-listen 0.0.0.0:1 --http-listen 127.0.0.1:2 --credentials-dir /etc/c --insecure";
    let config = serve(line).config().unwrap();
    assert_eq!(config.grpc.listen.to_string(), "0.0.0.0:1");
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:2");
    assert_eq!(config.credentials, crate::config::Credentials::Directory("/etc/c".into()));
    assert!(config.insecure);
    assert!(serve("tidegate serve --config /nowhere").config().is_err());
    assert!(serve("tidegate serve --grpc-listen 0.0.0.0:1").config().is_err());
}

#[test]
fn check_takes_files_and_flags() {
    let flags = check("tidegate check a.yaml b.yaml");
    assert_eq!(flags.files, [PathBuf::from("a.yaml"), PathBuf::from("b.yaml")]);
    assert_eq!((flags.output, flags.namespace.as_str()), (check::Output::Table, "default"));
    let flags = check("tidegate check a.yaml --output json --namespace tenant-a --credentials-dir c");
    assert_eq!((flags.output, flags.namespace.as_str()), (check::Output::Json, "tenant-a"));
    assert_eq!(flags.credentials_dir, Some("c".into()));
}

#[test]
fn a_log_level_goes_before_or_after_the_command() {
    for line in ["tidegate --log-level debug serve", "tidegate serve --log-level debug"] {
        assert_eq!(parse(line).unwrap().log_level.as_deref(), Some("debug"));
    }
}

#[test]
fn what_is_wrong_is_named_with_the_way_out() {
    for (line, reason) in [
        ("tidegate serve --grpc-liste 127.0.0.1:1", "--grpc-listen"),
        ("tidegate serv", "serve"),
        ("tidegate check", "FILE"),
        ("tidegate check a.yaml --output xml", "[possible values: table, json]"),
        ("tidegate check a.yaml --namespace ../b", "a namespace is"),
        ("tidegate serve --grpc-listen localhost", "invalid socket address"),
        ("tidegate", "Usage"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(parse("tidegate --version").unwrap_err(), format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_credentials_directory_that_is_not_there_is_named() {
    let error = credentials(Some("/nowhere/credentials".into())).unwrap_err().to_string();
    assert!(error.starts_with("credentials directory /nowhere/credentials: "), "{error}");
    assert!(credentials(None).is_ok());
}
