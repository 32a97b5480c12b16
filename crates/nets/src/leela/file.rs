//! A file's bytes: plain or compressed with gzip, recognised by their beginning.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use prost::{
    DecodeError, Message,
    bytes::{Buf, Bytes},
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::{
    layers,
    messages::{MAGIC, Net},
};
use crate::{NetError, Network};

/// The beginning of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Largest file in memory: four bytes for every parameter that a network may have, and the rest.
const MOST_BYTES: u64 = 5 * crate::size::MAX_PARAMETERS;

/// Most residual blocks and layers of attention. A message of two bytes is one, and takes a kilobyte
/// of memory.
const MOST_BLOCKS: usize = 512;

/// Does a file with these first bytes hold a network of Leela's, as far as can be said? A gzip file
/// is taken for one: no other network file is compressed.
#[must_use]
pub fn is_leela(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP) || bytes.starts_with(&MAGIC)
}

/// Reads a network from a file's bytes; `name` is the file's, for messages, and gives the network
/// its own.
pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Network, NetError> {
    let refuse = |reason: String| NetError::Leela { name: name.to_owned(), reason };
    let bytes = if bytes.starts_with(&GZIP) {
        decompressed(bytes, MOST_BYTES).map_err(refuse)?
    } else {
        Bytes::copy_from_slice(bytes)
    };
    if !bytes.starts_with(&MAGIC) {
        return Err(refuse("it does not begin as one".to_owned()));
    }
    let incomplete = |error| refuse(format!("{error} (is it a complete download?)"));
    let blocks = count_blocks(bytes.clone()).map_err(incomplete)?;
    if blocks > MOST_BLOCKS {
        return Err(refuse(format!("it has {blocks} blocks, more than {MOST_BLOCKS}")));
    }
    let net = Net::decode(bytes).map_err(incomplete)?;
    layers::network(&net, name).map_err(refuse)
}

/// The number of blocks and layers of attention, without reading them.
fn count_blocks(net: Bytes) -> Result<usize, DecodeError> {
    const WEIGHTS: u32 = 10;
    /// Residual blocks, layers of a policy, layers of a body.
    const IN_WEIGHTS: [u32; 3] = [2, 21, 27];
    /// From the weights to the list of the plain one of several policies.
    const POLICY: [u32; 3] = [45, 3, 8];
    let mut blocks = 0;
    each_field(net, WEIGHTS, &mut |weights| {
        for field in IN_WEIGHTS {
            each_field(weights.clone(), field, &mut |_| {
                blocks += 1;
                Ok(())
            })?;
        }
        each_field(weights, POLICY[0], &mut |heads| {
            each_field(heads, POLICY[1], &mut |head| {
                each_field(head, POLICY[2], &mut |_| {
                    blocks += 1;
                    Ok(())
                })
            })
        })
    })?;
    Ok(blocks)
}

/// Calls `read` with the bytes of each field of this number that has a length.
fn each_field(
    mut message: Bytes,
    number: u32,
    read: &mut dyn FnMut(Bytes) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while message.has_remaining() {
        let (field, kind) = decode_key(&mut message)?;
        if (field, kind) != (number, WireType::LengthDelimited) {
            skip_field(kind, field, &mut message, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(&mut message)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(message.remaining());
        read(message.split_to(length))?;
    }
    Ok(())
}

/// The plain bytes of a gzip file, at most `most` and only if they begin as a network.
fn decompressed(bytes: &[u8], most: u64) -> Result<Bytes, String> {
    let incomplete = |error| format!("{error} (is it a complete download?)");
    let mut decoder = MultiGzDecoder::new(bytes);
    let mut plain = Vec::new();
    let start = MAGIC.len() as u64;
    decoder.by_ref().take(start).read_to_end(&mut plain).map_err(incomplete)?;
    if plain != MAGIC {
        return Err("it does not begin as one".to_owned());
    }
    decoder.take(most + 1 - start).read_to_end(&mut plain).map_err(incomplete)?;
    if plain.len() as u64 > most {
        return Err(format!("it is larger than {} MiB", most >> 20));
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn compressed(start: &[u8], zeros: usize) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(start).unwrap();
        encoder.write_all(&vec![0; zeros]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_file_of_empty_blocks_is_refused() {
        let mut file = MAGIC.to_vec();
        let blocks = [0x12, 0].repeat(MOST_BLOCKS + 1);
        file.extend([10 << 3 | 2, 0x82, 0x08]);
        file.extend(blocks);
        let error = read(&file, "many.pb").unwrap_err().to_string();
        assert!(error.ends_with("it has 513 blocks, more than 512"), "{error}");
    }

    #[test]
    fn a_file_that_swells_is_refused() {
        let plain =
            |zeros| decompressed(&compressed(&MAGIC, zeros), 1 << 20).map(|bytes| bytes.len());
        assert_eq!(plain((1 << 20) - 5), Ok(1 << 20));
        assert_eq!(plain((1 << 20) - 4).unwrap_err(), "it is larger than 1 MiB");
        let foreign = decompressed(&compressed(b"hello", 1 << 22), 1 << 20);
        assert_eq!(foreign.unwrap_err(), "it does not begin as one");
    }
}
