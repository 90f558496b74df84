//! Answering: how many calls a second Tidegate answers from memory, beside a bare tonic service that returns a constant.
//! The same client loads both in turn, so that the ratio holds where the machine's speed does not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    Result, bare,
    load::{Call, Load},
    tidegate,
};

/// One turn of one service.
const TURN: Duration = Duration::from_secs(2);

/// Turns of each service; the median pair is quoted.
const TURNS: usize = 5;

/// Triggers that are registered and warm.
const TRIGGERS: [usize; 2] = [1_000, 10_000];

/// Prints the table; its rows.
pub async fn run() -> Result<Value> {
    let bare = bare::serve().await?;
    let mut rows = Vec::new();
    println!("{:>9}  {:<14} {:>12} {:>12} {:>7}", "triggers", "call", "bare/s", "tidegate/s", "ratio");
    for triggers in TRIGGERS {
        let serving = tidegate::serve(triggers).await?;
        for call in [Call::GetMetrics, Call::IsActive, Call::GetMetricSpec] {
            let (mut plain, mut ours) = (
                Load::connect(bare.address, call, triggers).await?,
                Load::connect(serving.address, call, triggers).await?,
            );
            let mut turns = Vec::new();
            for _ in 0..TURNS {
                turns.push((plain.run(TURN).await?, ours.run(TURN).await?));
            }
            turns.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
            let (plain, ours) = turns[TURNS / 2];
            println!("{triggers:>9}  {:<14} {plain:>12.0} {ours:>12.0} {:>7.2}", call.name(), ours / plain);
            rows.push(json!({ "triggers": triggers, "call": call.name(), "bare": plain, "tidegate": ours, "ratio": ours / plain }));
        }
    }
    Ok(Value::Array(rows))
}
