//! The integration tests: one binary. `cargo test -p tidegate-tests --test integration NAME` starts only what the selected
//! tests need.

mod bad_input;
mod check;
mod harness_check;
mod kafka_cases;
mod kafka_lag;
mod kafka_oracle;
mod kafka_security;
mod process;
mod kafka_sessions;
mod prometheus;
mod rabbitmq;
mod replicas;
mod secrecy;
mod tidy;

use libtest_mimic::Arguments;
use tidegate_tests::services;

fn main() {
    let arguments = Arguments::from_args();
    let trials = [
        tidy::trials(),
        harness_check::trials(),
        bad_input::trials(),
        replicas::trials(),
        secrecy::trials(),
        process::trials(),
        kafka_cases::trials(),
        kafka_lag::trials(),
        kafka_oracle::trials(),
        check::trials(),
        kafka_security::trials(),
        rabbitmq::trials(),
        kafka_sessions::trials(),
        prometheus::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    services::stop_all();
    conclusion.exit();
}
