//! Keeps the generated code equal to what `externalscaler.proto` gives.
//! `UPDATE_GENERATED=1 cargo test -p tidegate-proto` writes it.

use std::{env, error::Error, fs, path::Path};

use prost::Message;

#[test]
fn generated_code_is_what_the_proto_file_gives() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = root.join("src/generated");
    let scratch = env::temp_dir().join(format!("tidegate-proto-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;

    let descriptors = protox::compile(["externalscaler.proto"], [root])?;
    tonic_prost_build::configure().out_dir(&scratch).compile_fds(descriptors.clone())?;
    fs::write(scratch.join("externalscaler.bin"), descriptors.encode_to_vec())?;

    for name in ["externalscaler.rs", "externalscaler.bin"] {
        let fresh = fs::read(scratch.join(name))?;
        if env::var_os("UPDATE_GENERATED").is_some() {
            fs::create_dir_all(&generated)?;
            fs::write(generated.join(name), &fresh)?;
        }
        let kept = fs::read(generated.join(name)).unwrap_or_default();
        assert!(kept == fresh, "{name} is stale: run with UPDATE_GENERATED=1");
    }
    fs::remove_dir_all(&scratch)?;
    Ok(())
}
