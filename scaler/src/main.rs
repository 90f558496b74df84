//! The `tidegate` command. Exit code 0: done; 1: failed; 2: asked in a wrong way (clap's own code, too).

use std::process::ExitCode;

use clap::Parser;
use tidegate::{
    cli::{Cli, CommandError},
    config::ConfigError,
    logs,
};

/// A wrong flag, or a wrong configuration.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = logs::start(cli.log_level.as_deref(), cli.command.log_level()) {
        eprintln!("error: {error}");
        return ExitCode::from(USAGE);
    }
    run(cli).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        if error.is::<ConfigError>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
    })
}

fn run(cli: Cli) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(cli.command.run());
    // A read that hangs on a dead mount must not keep the process.
    runtime.shutdown_background();
    code
}
