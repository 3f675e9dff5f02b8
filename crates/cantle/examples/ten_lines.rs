//! The program of `docs/bindings.md`, which is there in C, C++ and Python, too. Usage: ten_lines DIRECTORY

use cantle::Db;

fn main() -> cantle::Result<()> {
    let db = Db::open(std::env::args().nth(1).unwrap_or("flights".into()))?;
    db.put("UA/EWR/2013-07-04", "delayed")?;
    db.put("UA/EWR/2013-07-05", "on time")?;
    db.put("DL/LGA/2013-07-04", "on time")?;
    for pair in db.prefix("UA/EWR/").rev() {
        let (key, value) = pair?;
        println!("{}: {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    db.close()
}
