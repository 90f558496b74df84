//! A server process that dies with the tests.
//!
//! Invariants:
//! - No child outlives this process, whatever ends it: a shell holds the child and kills it when its own standard input
//!   closes, which the kernel does even after SIGKILL.
//! - A terminal's Ctrl-C reaches the tests only, never a child: each child has a process group of its own.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Result;

/// Runs the command given as its arguments, sends it each signal named on a line of standard input, and SIGKILL at its end.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
{ while read -r signal <&3; do kill -"$signal" "$child"; done; kill -KILL "$child"; } 2>/dev/null &
watcher=$!
wait "$child"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"#;

const EXIT_POLL: Duration = Duration::from_millis(20);

/// A running server.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    keeper: Child,
}

impl Process {
    /// Starts `program`; what it prints is appended to the file `log`.
    pub fn start(name: &str, log: &Path, program: &str, arguments: &[String]) -> Result<Self> {
        let output = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), keeper })
    }

    /// Sends a signal by its name, such as `TERM`, `KILL`, `STOP` or `CONT`.
    pub fn signal(&mut self, signal: &str) -> Result {
        let control = self.keeper.stdin.as_mut().ok_or("the keeper's standard input is open until it is dropped")?;
        writeln!(control, "{signal}").map_err(|error| format!("{} has ended: {error}", self.name).into())
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.keeper.try_wait()?)
    }

    /// Waits until the process has ended.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + deadline;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > until {
                return Err(format!("{} did not end within {deadline:?}\n{}", self.name, self.log_tail()).into());
            }
            sleep(EXIT_POLL).await;
        }
    }

    /// The last lines that the process printed.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 15;
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        format!("--- end of the log of {}\n{}", self.name, lines[lines.len().saturating_sub(LINES)..].join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper answers a closed input with SIGKILL, so this wait is short.
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn start_sleep(name: &str) -> (Process, String) {
        let log = std::env::temp_dir().join(format!("tidegate-{name}-{}.log", std::process::id()));
        let arguments = ["-c".to_owned(), "echo $$; exec sleep 600".to_owned()];
        let process = Process::start(name, &log, "sh", &arguments).unwrap();
        let pid = loop {
            let printed = std::fs::read_to_string(&log).unwrap();
            if printed.ends_with('\n') {
                break printed.trim().to_owned();
            }
            sleep(EXIT_POLL).await;
        };
        std::fs::remove_file(log).unwrap();
        (process, pid)
    }

    #[tokio::test]
    async fn a_signal_reaches_the_child_and_its_end_is_seen() {
        let (mut process, pid) = start_sleep("signal").await;
        process.signal("TERM").unwrap();
        let status = process.wait(Duration::from_secs(10)).await.unwrap();
        assert_eq!(status.code(), Some(128 + 15));
        assert!(!alive(&pid));
    }

    #[tokio::test]
    async fn a_child_dies_with_its_owner_even_if_it_is_stopped() {
        let (mut process, pid) = start_sleep("owner").await;
        process.signal("STOP").unwrap();
        assert!(alive(&pid));
        drop(process);
        assert!(!alive(&pid));
    }
}
