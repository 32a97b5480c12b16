//! Writes a network with random weights, norms and biases from a description: for outside judges.
//!
//!     cargo run --release -p batch-first-nets --example random_network -- DESCRIPTION.json OUT.safetensors

use std::path::Path;

use nets::{Description, Network};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [description, out] = arguments.as_slice() else {
        return Err("random_network DESCRIPTION.json OUT.safetensors".into());
    };
    let description: Description = serde_json::from_str(&std::fs::read_to_string(description)?)?;
    let mut network = Network::random(description, 1)?;
    for (number, (name, tensor)) in network.tensors.iter_mut().enumerate() {
        // A norm or bias in the wrong place would not be seen if it were 1 or 0.
        if !name.ends_with(".weight") {
            let places = tensor.data.iter_mut().enumerate();
            places.for_each(|(at, value)| *value += ((at * 7 + number) % 13) as f32 * 0.05);
        }
    }
    network.save(Path::new(out))?;
    Ok(())
}
