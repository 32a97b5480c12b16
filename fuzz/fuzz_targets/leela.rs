//! The messages of a network file of Leela's, without compression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nets::Network;

fuzz_target!(|bytes: &[u8]| {
    let mut file = vec![0x0d, 0xc0, 0x01, 0x00, 0x00];
    file.extend_from_slice(bytes);
    let _ = Network::from_bytes(&file, "fuzz.pb");
});
