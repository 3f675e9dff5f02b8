//! Options of a store and its keyspace as arguments, for the commands that write much.

use cantle::{Compression, Durability, KeyspaceOptions, LayoutOptions, Options};
use cantle_workloads::size::parse_size;
use serde::{Serialize, Serializer};

/// A store does not remember them: they hold for the command that is given them.
#[derive(Debug, Clone, Serialize, clap::Args)]
pub(crate) struct Tuning {
    /// The store's memory budget, as in 256MiB [default: a quarter of the machine's, at most 4GiB]
    #[serde(rename = "memory_bytes")]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// The events that an acknowledged write survives: the end of the process, or a loss of power
    /// as well
    #[arg(long, value_enum, default_value_t = Survives::Process)]
    pub(crate) durability: Survives,

    /// Bound on bytes on disk per live byte [default: 1.5, up to 3 while data is small beside the
    /// memory budget]
    #[arg(long, value_name = "RATIO")]
    pub(crate) space_amplification: Option<f64>,

    /// Compression of tables: none, lz4, zstd or zstd:LEVEL
    #[serde(serialize_with = "compression_name")]
    #[arg(long, default_value = "none", value_parser = parse_compression)]
    pub(crate) compression: Compression,

    /// Layout of a new keyspace: chunk, flsm or forest, or with options of its own, as
    /// chunk:munks=false,chunk_bytes=1MiB [default: that of the keyspace, chunk for a new one]
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout)]
    pub(crate) layout: Option<String>,
}

/// The store's durability as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Survives {
    /// Nothing until the next checkpoint
    Buffered,
    /// The end of the process
    Process,
    /// Power loss
    Sync,
}

impl Survives {
    /// The library's name for it.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Self::Buffered => Durability::Buffered,
            Self::Process => Durability::Process,
            Self::Sync => Durability::Sync,
        }
    }
}

impl Tuning {
    /// Options of the store; those of its default keyspace are the caller's to add.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new().durability(self.durability.durability());
        match self.memory {
            Some(bytes) => options.memory_budget(bytes),
            None => options,
        }
    }

    /// Options of the keyspace that is written to.
    pub(crate) fn keyspace_options(&self) -> KeyspaceOptions {
        let mut keyspace = KeyspaceOptions::new().compression(self.compression);
        if let Some(bound) = self.space_amplification {
            keyspace = keyspace.space_amplification(bound);
        }
        match self.layout.as_ref().and_then(|layout| layout.parse::<LayoutOptions>().ok()) {
            Some(layout) => keyspace.layout(layout),
            None => keyspace,
        }
    }
}

/// The text, once it is known to name a layout: reports have it as it was given.
pub(crate) fn parse_layout(text: &str) -> Result<String, String> {
    text.parse::<LayoutOptions>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// The level that `zstd` alone means: Zstandard's own default.
const ZSTD_LEVEL: i32 = 3;

fn parse_compression(text: &str) -> Result<Compression, String> {
    let wrong = || format!("{text:?} is no compression: give none, lz4, zstd or zstd:LEVEL with 1 to 22");
    match text {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd(ZSTD_LEVEL)),
        _ => {
            let level = text.strip_prefix("zstd:").and_then(|level| level.parse::<i32>().ok());
            level.filter(|level| (1..=22).contains(level)).map(Compression::Zstd).ok_or_else(wrong)
        }
    }
}

/// Serializes a compression as it is given on the command line.
fn compression_name<S: Serializer>(compression: &Compression, serializer: S) -> Result<S::Ok, S::Error> {
    match compression {
        Compression::None => serializer.serialize_str("none"),
        Compression::Lz4 => serializer.serialize_str("lz4"),
        Compression::Zstd(level) => serializer.collect_str(&format_args!("zstd:{level}")),
        other => serializer.collect_str(&format_args!("{other:?}")),
    }
}
