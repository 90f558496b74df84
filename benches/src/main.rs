//! Ratios, taken side by side in one run; `tidegate-benches FILE` writes them as JSON too.

mod answering;
mod bare;
mod hanging;
mod load;
mod tidegate;

use std::error::Error;

use serde_json::json;

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result {
    let figures = json!({ "answering": answering::run().await?, "hanging": hanging::run().await? });
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(path, serde_json::to_vec_pretty(&figures)?)?;
    }
    Ok(())
}
