//! Damages to the files of a store.

use super::shapes::Shape;
use crate::files::{Kind, names, path, put, read};
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use std::fmt;

/// One damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Harm {
    /// The file ends here.
    Cut {
        file: String,
        len: u64,
    },
    Flip {
        file: String,
        bit: u64,
    },
    Zero {
        file: String,
        from: u64,
        bytes: u64,
    },
    /// Two blocks are exchanged.
    Swap {
        file: String,
        at: u64,
        other: String,
        other_at: u64,
        bytes: u64,
    },
    /// Replaced by another file of this store.
    Replaced {
        file: String,
        by: String,
    },
    /// Replaced by an older generation of the same file.
    Older {
        file: String,
        generation: usize,
    },
    /// Replaced by a file of another store.
    Foreign {
        file: String,
        by: String,
    },
    Missing {
        file: String,
    },
    /// Copied to another name.
    Doubled {
        file: String,
        name: String,
    },
}

impl Harm {
    /// The file that is damaged.
    pub fn file(&self) -> &str {
        match self {
            Self::Cut { file, .. }
            | Self::Flip { file, .. }
            | Self::Zero { file, .. }
            | Self::Swap { file, .. }
            | Self::Replaced { file, .. }
            | Self::Older { file, .. }
            | Self::Foreign { file, .. }
            | Self::Missing { file }
            | Self::Doubled { file, .. } => file,
        }
    }

    /// True if this damages a file of this kind.
    pub fn hits(&self, kind: Kind) -> bool {
        Kind::of(self.file()) == kind || matches!(self, Self::Swap { other, .. } if Kind::of(other) == kind)
    }

    /// True if an error may name this file: a damaged one, or one that was overwritten.
    pub fn concerns(&self, name: &str) -> bool {
        self.file() == name
            || match self {
                Self::Swap { other, .. } => other == name,
                Self::Doubled { name: doubled, .. } => doubled == name,
                _ => false,
            }
    }

    pub fn plural(&self) -> &'static str {
        match self {
            Self::Cut { .. } => "truncations",
            Self::Flip { .. } => "bit flips",
            Self::Zero { .. } => "zeroed ranges",
            Self::Swap { .. } => "swaps of blocks",
            Self::Replaced { .. } => "files in another's place",
            Self::Older { .. } => "files of an older generation",
            Self::Foreign { .. } => "files of another store",
            Self::Missing { .. } => "missing files",
            Self::Doubled { .. } => "doubled files",
        }
    }

    /// True if any byte changed that a store had written and that a checksum covers.
    pub fn is_damage(&self, shape: &Shape) -> bool {
        Kind::of(self.file()) != Kind::Other && self.first_change(shape).is_some()
    }

    /// The files that are touched.
    pub fn files(&self) -> Vec<&str> {
        match self {
            Self::Swap { file, other, .. } if other != file => vec![file, other],
            Self::Doubled { name, .. } => vec![name],
            _ => vec![self.file()],
        }
    }

    /// Offset of the first byte of the damaged file that changed; its length if the file is gone or
    /// longer.
    pub fn first_change(&self, shape: &Shape) -> Option<u64> {
        let before = &shape.bytes[self.file()];
        let damaged = self.inflict(shape);
        if !names(&damaged).iter().any(|name| name == self.file()) {
            return Some(0);
        }
        let after = read(&damaged, self.file());
        let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        (same < before.len() || before.len() != after.len()).then_some(same as u64)
    }

    /// Returns a copy of the store with the damage.
    pub fn inflict(&self, shape: &Shape) -> MemVfs {
        let vfs = shape.vfs.kill();
        let open = |name: &str| vfs.open(&path(name), OpenMode::ReadWrite).unwrap();
        match self {
            Self::Cut { file, len } => open(file).set_len(*len).unwrap(),
            Self::Flip { file, bit } => {
                let (file, mut byte) = (open(file), [0]);
                file.read_exact_at(&mut byte, bit / 8).unwrap();
                byte[0] ^= 1 << (bit % 8);
                file.write_at(&byte, bit / 8).unwrap();
            }
            Self::Zero { file, from, bytes } => {
                open(file).write_at(&vec![0; *bytes as usize], *from).unwrap()
            }
            Self::Swap { file, at, other, other_at, bytes } => {
                let (file, other) = (open(file), open(other));
                let (mut a, mut b) = (vec![0; *bytes as usize], vec![0; *bytes as usize]);
                file.read_exact_at(&mut a, *at).unwrap();
                other.read_exact_at(&mut b, *other_at).unwrap();
                file.write_at(&b, *at).unwrap();
                other.write_at(&a, *other_at).unwrap();
            }
            Self::Replaced { file, by } => put(&vfs, file, &read(&shape.vfs, by)),
            Self::Older { file, generation } => put(&vfs, file, &read(&shape.older[*generation], file)),
            Self::Foreign { file, by } => put(&vfs, file, &read(&shape.foreign, by)),
            Self::Missing { file } => vfs.remove(&path(file)).unwrap(),
            Self::Doubled { file, name } => put(&vfs, name, &read(&shape.vfs, file)),
        }
        vfs
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { file, len } => write!(f, "cut/{file}/{len}"),
            Self::Flip { file, bit } => write!(f, "flip/{file}/{bit}"),
            Self::Zero { file, from, bytes } => write!(f, "zero/{file}/{from}+{bytes}"),
            Self::Swap { file, at, other, other_at, bytes } => {
                write!(f, "swap/{file}/{at}/{other}/{other_at}+{bytes}")
            }
            Self::Replaced { file, by } => write!(f, "replaced/{file}/{by}"),
            Self::Older { file, generation } => write!(f, "older/{file}/{generation}"),
            Self::Foreign { file, by } => write!(f, "foreign/{file}/{by}"),
            Self::Missing { file } => write!(f, "missing/{file}"),
            Self::Doubled { file, name } => write!(f, "doubled/{file}/{name}"),
        }
    }
}
