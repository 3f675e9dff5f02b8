//! Batches over keyspaces: orders and an index of them by customer, which never disagree.
//!
//!     cargo run -p cantle --example batches

use cantle::{Compression, Db, Durability, Keyspace, KeyspaceOptions, WriteBatch, WriteOptions, key};

/// Adds an order and its entry in the index: both or none, whoever looks and whatever happens.
fn place_order(
    db: &Db,
    orders: &Keyspace,
    by_customer: &Keyspace,
    id: i64,
    customer: &str,
) -> cantle::Result<()> {
    let mut batch = WriteBatch::new();
    batch.keyspace(orders).put(key::encode(&(id,)), customer);
    batch.keyspace(by_customer).put(key::encode(&(customer, id)), b"");
    db.write(batch)
}

/// Places orders and deletes some, with their index.
pub fn main() -> cantle::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| cantle::Error::InvalidArgument(error.to_string()))?;
    let db = Db::open(dir.path().join("shop"))?;

    // A keyspace has options of its own. It is created once and found by its name from then on.
    let orders = db.keyspace_with("orders", KeyspaceOptions::new().compression(Compression::Lz4))?;
    let by_customer = db.keyspace("orders-by-customer")?;

    for id in 0..300 {
        place_order(&db, &orders, &by_customer, id, ["ada", "bob", "eve"][id as usize % 3])?;
    }

    // A snapshot covers all keyspaces: the index read from it fits the orders read from it.
    let snapshot = db.snapshot();
    for pair in snapshot.keyspace(&by_customer).range(key::range_of(&("bob",))) {
        let (index_key, _) = pair?;
        let id = key::parse(&index_key)?.pop();
        let Some(key::Part::Int(id)) = id else { panic!("an index key ends with the order's number") };
        let customer = snapshot.keyspace(&orders).get(key::encode(&(id,)))?;
        assert_eq!(customer.as_deref(), Some(&b"bob"[..]));
    }

    // Operations of a batch take effect in their order; ranges may be deleted, too. This one is on disk, whatever
    // happens to the machine, when `write_with` returns: everything that was acknowledged before is as well.
    let mut batch = WriteBatch::new();
    batch.keyspace(&orders).delete_range(key::encode(&(0i64,))..key::encode(&(200i64,)));
    for pair in by_customer.range(..) {
        let (index_key, _) = pair?;
        if let Some(key::Part::Int(0..200)) = key::parse(&index_key)?.pop() {
            batch.keyspace(&by_customer).delete(index_key);
        }
    }
    db.write_with(batch, WriteOptions::new().durability(Durability::Sync))?;
    assert_eq!(orders.range(..).count(), 100);
    assert_eq!(by_customer.range(..).count(), 100);
    // The snapshot still has all of them.
    assert_eq!(snapshot.keyspace(&orders).range(..).count(), 300);

    drop(snapshot);
    db.drop_keyspace("orders-by-customer")?;
    assert_eq!(db.keyspaces()?, ["default", "orders"]);
    db.close()
}
