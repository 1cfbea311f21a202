// SPDX-License-Identifier: Apache-2.0
//! The bytes of a transfer, readable at any offset, so that retransmissions need no copy.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The source of the bytes.
#[derive(Debug)]
pub enum Content {
    /// Pseudo-random bytes, determined by the seed.
    Random(u64),
    /// A file, which must not change during the transfer.
    File(File),
}

impl Content {
    /// Opens a file; returns its length too.
    pub fn open(path: &Path) -> io::Result<(Self, u64)> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((Self::File(file), length))
    }

    /// Fills `out` with the bytes from `offset` on. Fails if a file cannot be read or is shorter.
    pub fn fill(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(out, offset),
            Self::Random(seed) => {
                fill_random(*seed, offset, out);
                Ok(())
            }
        }
    }
}

fn fill_random(seed: u64, offset: u64, out: &mut [u8]) {
    let mut index = offset / 8;
    let skip = (offset % 8) as usize;
    let (head, body) = out.split_at_mut(if skip == 0 { 0 } else { (8 - skip).min(out.len()) });
    if skip > 0 {
        head.copy_from_slice(&word(seed, index)[skip..][..head.len()]);
        index += 1;
    }
    let mut words = body.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(seed, index));
        index += 1;
    }
    let tail = words.into_remainder();
    tail.copy_from_slice(&word(seed, index)[..tail.len()]);
}

/// Word number `index` of the stream: a counter, mixed as SplitMix64 does.
fn word(seed: u64, index: u64) -> [u8; 8] {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn the_generator_is_splitmix64() {
        assert_eq!(word(0, 0), 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
        assert_eq!(word(0, 1), 0x6e78_9e6a_a1b9_65f4_u64.to_le_bytes());
    }

    #[test]
    fn a_file_shorter_than_its_transfer_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"hello").unwrap();
        let (content, length) = Content::open(file.path()).unwrap();
        let mut out = [0; 3];
        content.fill(2, &mut out).unwrap();
        assert_eq!((length, &out), (5, b"llo"));
        assert!(content.fill(3, &mut out).is_err());
    }

    proptest! {
        #[test]
        fn any_piece_is_the_same_as_in_the_whole(seed: u64, from in 0_usize..100, len in 0_usize..100) {
            let mut whole = [0; 200];
            fill_random(seed, 0, &mut whole);
            let mut piece = vec![0; len];
            fill_random(seed, from as u64, &mut piece);
            prop_assert_eq!(&piece[..], &whole[from..from + len]);
        }
    }
}
