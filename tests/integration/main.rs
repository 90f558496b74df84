//! The integration tests: one binary. `cargo test -p tidegate-tests --test integration NAME` starts only what the selected
//! tests need.

mod bad_input;
mod check;
mod cron;
mod harness_check;
mod kafka_cases;
mod kafka_lag;
mod kafka_moves;
mod kafka_oracle;
mod kafka_security;
mod kafka_sessions;
mod kafka_waking;
mod kafka_wire;
mod process;
mod prometheus;
mod prometheus_scale;
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
        check::trials(),
        cron::trials(),
        process::trials(),
        replicas::trials(),
        secrecy::trials(),
        kafka_cases::trials(),
        kafka_lag::trials(),
        kafka_moves::trials(),
        kafka_oracle::trials(),
        kafka_security::trials(),
        kafka_sessions::trials(),
        kafka_waking::trials(),
        kafka_wire::trials(),
        rabbitmq::trials(),
        prometheus::trials(),
        prometheus_scale::trials(),
    ];
    let trials = trials.into_iter().flatten().collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    services::stop_all();
    conclusion.exit();
}
