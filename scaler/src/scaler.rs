//! The core: triggers, their samples, and the answers. What the gRPC service calls.

use crate::answer::{MetricSpec, Reference, Refusal, Verdict};

/// All triggers of all tenants.
pub struct Scaler {}

impl Scaler {
    /// The metric of a trigger. No I/O, no state: works with every source down.
    pub fn spec(&self, _reference: Reference<'_>) -> Result<MetricSpec, Refusal> {
        unimplemented!()
    }

    /// What KEDA is told now. Waits for the first sample of a query that nobody asked before, at most 2.5 s.
    pub async fn verdict(&self, _reference: Reference<'_>) -> Result<Verdict, Refusal> {
        unimplemented!()
    }

    /// The activations of a trigger, for one push stream.
    pub fn watch(&self, _reference: Reference<'_>) -> Result<Activations, Refusal> {
        unimplemented!()
    }

    /// Ends every poller; waits until all have ended.
    pub async fn shut_down(&self) {
        unimplemented!()
    }
}

/// The moments at which one push stream sends `true`: on opening if active, on each rising edge, and 5 s and 30 s after.
pub struct Activations {}

impl Activations {
    /// Waits for the next moment to send `true`. Never ends; to stop, drop it.
    pub async fn next(&mut self) {
        unimplemented!()
    }
}
