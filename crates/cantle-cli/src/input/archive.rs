//! Files that must be unpacked first, by their first bytes, and the command that does so.

use std::io;

/// The bytes of a file that suffice to know it: tar has its mark at 257.
pub(super) const HEAD_BYTES: usize = 262;

/// Kinds of files: where their mark stands, the mark, their name, the command that writes their
/// contents to standard output (`{}` is the file).
const KINDS: [(usize, &[u8], &str, &str); 14] = [
    (0, b"\xfd7zXZ\0", "compressed with xz", "xz -dc {}"),
    (0, b"BZh", "compressed with bzip2", "bzip2 -dc {}"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc {}"),
    (0, b"LZIP\x01", "compressed with lzip", "lzip -dc {}"),
    (0, b"\x89LZO\0\r\n\x1a\n", "compressed with lzop", "lzop -dc {}"),
    (0, b"\x1f\x9d", "compressed with compress", "uncompress -c {}"),
    (0, b"\xff\x06\0\0sNaPpY", "compressed with Snappy", "snzip -dc {}"),
    (0, b"PK\x03\x04", "a ZIP archive", "unzip -p {}"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x -so {}"),
    (0, b"Rar!\x1a\x07", "a RAR archive", "unrar p -inul {}"),
    (257, b"ustar", "a tar archive", "tar -xO"),
    (0, b"PAR1", "a Parquet file", "duckdb -csv -c \"from '{}'\""),
    (0, b"ARROW1", "an Arrow file", "duckdb -csv -c \"from '{}'\""),
    (0, b"SQLite format 3\0", "a SQLite database", "sqlite3 -csv -header {} 'select * from TABLE'"),
];

/// Refuses a file that begins with `head` if it must be unpacked first. `how` is the option of tar
/// for the compression around it.
pub(super) fn refuse(head: &[u8], path: &str, how: &str) -> io::Result<()> {
    let is = |&&(at, mark, name, _): &&(usize, &[u8], &str, &str)| {
        let found = head.get(at..).is_some_and(|rest| rest.starts_with(mark));
        // Three letters and a digit are no proof: a block's mark follows them.
        found && (!name.ends_with("bzip2") || head.get(4..10) == Some(&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59]))
    };
    let Some((_, _, name, command)) = KINDS.iter().find(is) else { return Ok(()) };
    let file = if path == "-" { "FILE" } else { path };
    let command = match *name {
        "a tar archive" => format!("{command}{how}f {file}"),
        _ => command.replace("{}", file),
    };
    Err(io::Error::other(format!(
        "it is {name}: unpack it, or give - as the file and pipe it: {command} | cantle …"
    )))
}
